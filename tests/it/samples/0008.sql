-- A job that came from another host, with a file that holds next to nothing.
INSERT INTO job (id, kind, key, name, started_ms, ended_ms, outcome, partly_seen)
VALUES (6, 'snapshot', 'imported:00', 'twin_snapshot', 1000, 2000, 'succeeded', 0);
INSERT INTO imported (key, file) VALUES ('imported:00', x'1f8b0800000000000203ab564ace2f4f4acdc989cfca4f52b232ac050053231b2011000000');
