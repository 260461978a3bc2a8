-- What a database may hold once migration 0001 has run. The checksums are those of src/store/records.rs.

INSERT INTO device VALUES (1, 'S1', 'sda', 'sda', 'disk', 1, 1772330400000);
INSERT INTO volume VALUES (1, 'LVM-abc', 'vg0', 'data_snapshot', NULL, 1772330400000);
INSERT INTO tick VALUES (1772330400000, x'00');
INSERT INTO minute VALUES (1772330400000, x'00');
INSERT INTO ten_minute VALUES (1772330400000, 1000, x'00');
INSERT INTO gap VALUES (1, 1772330500000, 1772330600000, 100, 'the disk of the database was full');
INSERT INTO identity VALUES (1, 4711);
INSERT INTO deleted_number VALUES (1, 9);
INSERT INTO job_record VALUES (7, 'LVM-abc', 1772330400000, 1772330510000, 'vg0/data', 8192, '{"vg":"vg0","lv":"data_snapshot","origin":"data","ended_at":"2026-03-01T02:01:50Z","outcome":"untrustworthy","died_at":"2026-03-01T02:01:40.250Z","io_error_at":null,"backup_run":{"run":4711,"phases":[{"phase":"flush","at":"2026-03-01T02:00:01Z"},{"phase":"snapshot","at":"2026-03-01T02:00:02Z"},{"phase":"mount","at":"2026-03-01T02:00:03Z"},{"phase":"backup","at":"2026-03-01T02:00:04Z"},{"phase":"cleanup","at":"2026-03-01T02:00:09Z"}],"locked_from":"2026-03-01T02:00:01Z","locked_until":"2026-03-01T02:00:03Z","reported":{"at":"2026-03-01T02:01:45Z","succeeded":true},"first_at":"2026-03-01T02:00:00Z","last_at":"2026-03-01T02:00:09Z","is_unbroken":false},"exit_status":null,"mounted_on":"/mnt/snap","unmounted_at":"2026-03-01T02:01:49Z","partly_seen":false,"last_fill_percent":99.95,"peak_fill_percent":99.95,"bytes_read":4096,"setup":{},"label":null,"notes":[{"at":"2026-03-01T02:00:50Z","text":"tape changed"}],"phase_marks":[],"program":"mylvmbackup","kind":"snapshot","name":"data_snapshot","started_at":"2026-03-01T02:00:00Z"}', 683063263);
INSERT INTO job_record VALUES (8, 'mark:job-1', 1772326800000, NULL, NULL, NULL, '{"vg":null,"lv":null,"origin":null,"ended_at":null,"outcome":null,"died_at":null,"io_error_at":null,"backup_run":null,"exit_status":null,"mounted_on":null,"unmounted_at":null,"partly_seen":true,"last_fill_percent":null,"peak_fill_percent":null,"bytes_read":null,"setup":{},"label":{"set":"zstd","variant":"level3","repeat":2},"notes":[],"phase_marks":[{"at":"2026-03-01T01:00:05Z","name":"reading"}],"program":null,"kind":"mark","name":"nightly","started_at":"2026-03-01T01:00:00Z"}', 3253433470);
INSERT INTO imported VALUES ('mark:job-1', x'1f8b');
INSERT INTO alert_record VALUES (1, 1772330490000, NULL, '{"id":1,"rule":"snapshot_fill","severity":"critical","vg":"vg0","lv":"data_snapshot","uuid":"LVM-abc","value":97.5,"peak":97.5,"job":null,"raised_at":"2026-03-01T02:01:30Z","cleared_at":null,"recovered":false,"worst":"critical","worse_at":null,"acknowledged":null,"sentence":"Snapshot vg0/data_snapshot is 97.5 % full.","text":{"problem":[{"text":"Snapshot "},{"volume":"vg0/data_snapshot"},{"text":" is 97.5 % full."}],"remedy":[],"ending":[]}}', 1711509697);
INSERT INTO delivery_record (alert, receiver, body) VALUES
    (1, 'mail', '{"alert":1,"receiver":"mail","known":{"status":"raised","severity":"warning","at":"2026-03-01T02:04:00Z"},"is_delivered":true,"tries":1,"tried_at":"2026-03-01T02:04:00Z","answer":"250 OK"}');
INSERT INTO silence (volumes, until_ms, note) VALUES ('vg0/test*', 1772330400000, 'moved to the new disk');
INSERT INTO remote_write (one, done, islands) VALUES
    (1, 1795000000000, '[{"after":{"stretch":0,"at_ms":1795000060000},"to":{"stretch":1,"at_ms":1795000120000}}]');
INSERT INTO size_curve (uuid, at_ms, body) VALUES ('9fjWVy-lcsr-GWcN-YlRH-r8Ie-6BEU-lHGEvC', 1772330400000,
    '{"at":"2026-03-01T02:00:00Z","is_thin":false,"measured_min":60,"discarded_min":null,"chunks":[{"bytes":4096,"counts":[1,2,3,5,8,9,10,12,20,31]}]}');
