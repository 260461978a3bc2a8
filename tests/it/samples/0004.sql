INSERT INTO segment (id, from_ms, to_ms, rows, first_source, last_source, axis) VALUES (3 << 36 | 1, 1772330400000, 1772330400000, 1, 1, 1, x'00');
INSERT INTO chunk (id, data) VALUES ((3 << 36 | 1) << 24, x'00');
