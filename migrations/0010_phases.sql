-- Phases of a job that somebody told. Those that hooks tell are always the same five, and have columns of their own.

ALTER TABLE job ADD COLUMN phases TEXT                           -- JSON: [{"at": …, "name": …}], in the order of time
    CHECK (phases IS NULL OR json_valid(phases));                -- NULL where nobody told any
