-- What hooks told of the run that made a snapshot, and what overrides what it reported of itself.

ALTER TABLE job ADD COLUMN run INTEGER CHECK (run > 0);          -- its process, by which later words are known; NULL without hooks
ALTER TABLE job ADD COLUMN flush_ms    INTEGER;                  -- when each phase began, as far as that was heard
ALTER TABLE job ADD COLUMN snapshot_ms INTEGER;
ALTER TABLE job ADD COLUMN mount_ms    INTEGER;
ALTER TABLE job ADD COLUMN backup_ms   INTEGER;
ALTER TABLE job ADD COLUMN cleanup_ms  INTEGER;
ALTER TABLE job ADD COLUMN locked_from_ms  INTEGER;              -- outside of this span the database was not locked
ALTER TABLE job ADD COLUMN locked_until_ms INTEGER CHECK (locked_until_ms >= locked_from_ms);
ALTER TABLE job ADD COLUMN reported TEXT                         -- the run's own word, which is not the outcome
    CHECK (reported IN ('succeeded', 'failed'));
ALTER TABLE job ADD COLUMN reported_ms INTEGER                   -- a snapshot that died later did no harm
    CHECK ((reported_ms IS NULL) = (reported IS NULL));
ALTER TABLE job ADD COLUMN io_error_ms INTEGER;                  -- when its snapshot answered nothing but errors
ALTER TABLE job ADD COLUMN exit_status INTEGER                   -- of a command that ended by itself
    CHECK (exit_status BETWEEN 0 AND 255);
