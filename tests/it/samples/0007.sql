-- A run of a set, with a note, and a snapshot of which one knows what made it.
UPDATE job SET set_name = 'dd', variant = 'same PV', repeat = 3,
    notes = '[{"at":"2026-03-01T02:00:00Z","text":"buffer pool is cold"}]' WHERE id = 4;
UPDATE job SET program = 'mylvmbackup' WHERE kind = 'snapshot';
