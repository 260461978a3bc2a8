INSERT INTO delivery_record (alert, receiver, body) VALUES
    (1, 'mail', '{"alert":1,"receiver":"mail","known":{"status":"raised","severity":"warning","at":"2026-03-01T02:04:00Z"},"is_delivered":true,"tries":1,"tried_at":"2026-03-01T02:04:00Z","answer":"250 OK"}');
INSERT INTO silence (volumes, until_ms, note) VALUES ('vg0/test*', 1772330400000, 'moved to the new disk');
