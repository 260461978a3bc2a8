-- The last job was deleted.
INSERT INTO deleted_number (one, job) VALUES (1, 9);
