INSERT INTO gap (from_ms, to_ms, ticks, reason) VALUES (1772330400000, 1772330460000, 60, 'the disk of the database took nothing');
INSERT INTO identity (one, id) VALUES (1, 4711);
INSERT INTO segment (id, from_ms, to_ms, rows, axis) VALUES (1, 1772330400000, 1772330400000, 1, x'00');
INSERT INTO chunk (id, data) VALUES (16777216, x'00');
