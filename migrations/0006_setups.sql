-- What a job's snapshot, its origin and the machine were like, which nobody can ask when the snapshot is gone.

ALTER TABLE job ADD COLUMN setup TEXT                            -- JSON (src/job/setup.rs); NULL where nothing is known
    CHECK (setup IS NULL OR json_valid(setup));
