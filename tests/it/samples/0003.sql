INSERT INTO remote_write (one, done_segment, done_ms, islands) VALUES
    (1, 1, 1795000000000, '[{"after":{"segment":1,"at_ms":1795000060000},"to":{"segment":2,"at_ms":1795000120000}}]');
