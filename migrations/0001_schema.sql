-- What the database holds. README.md in this folder explains each column to people who query it.
-- Times are milliseconds since 1970, UTC. Every table is STRICT: a wrong type is an error, not a surprise.

-- "CowB": lets the program (and `file`) tell its own database from any other.
PRAGMA application_id = 1131378498;

-- A block device, found again by its identity, whatever its name. Its names are the last that it had.
CREATE TABLE device (
    id           INTEGER PRIMARY KEY,
    identity     TEXT    NOT NULL UNIQUE CHECK (identity <> ''),
    name         TEXT    NOT NULL,                               -- the kernel's, such as dm-3
    label        TEXT    NOT NULL,                               -- for people, such as vg0/mysql
    kind         TEXT    NOT NULL,
    counts       INTEGER NOT NULL CHECK (counts IN (0, 1)),      -- whether it is part of the host's total
    last_seen_ms INTEGER NOT NULL
) STRICT;

-- An LVM volume, found again by its UUID. Its row outlives it: that is the history of a snapshot.
CREATE TABLE volume (
    id              INTEGER PRIMARY KEY,
    uuid            TEXT    NOT NULL UNIQUE CHECK (uuid <> ''),
    vg              TEXT    NOT NULL,
    lv              TEXT    NOT NULL,
    device_identity TEXT,                                        -- NULL while it was never active
    last_seen_ms    INTEGER NOT NULL
) STRICT;

-- About ten minutes of ticks, or a longer time of roll-ups: when its rows ended and how long they were.
CREATE TABLE segment (
    id           INTEGER PRIMARY KEY,                            -- level << 36 | number; numbers grow with the writing
    from_ms      INTEGER NOT NULL,                               -- the ends of its first and of its last row
    to_ms        INTEGER NOT NULL CHECK (to_ms >= from_ms),
    rows         INTEGER NOT NULL CHECK (rows > 0),
    first_source INTEGER,                                        -- numbers of the segments of ticks
    last_source  INTEGER CHECK (last_source >= first_source),    -- that it is made of; NULL at level 0
    watched_ms   INTEGER NOT NULL CHECK (watched_ms >= 0),       -- the length of all ticks up to its end: its age is counted in it
    axis         BLOB    NOT NULL,                               -- packed (src/store/segment.rs)
    CHECK ((id >> 36 = 0) = (first_source IS NULL)),
    CHECK ((first_source IS NULL) = (last_source IS NULL))
) STRICT;

CREATE INDEX segment_ends ON segment (to_ms, from_ms);           -- every chart asks for the segments of a range
CREATE INDEX segment_watched ON segment (watched_ms);            -- retention asks for the oldest

-- One stream (a device, a volume, the host) in one segment, packed (src/store/codec).
CREATE TABLE chunk (
    id   INTEGER PRIMARY KEY,                                    -- segment's id << 24 | stream's number
    data BLOB    NOT NULL
) STRICT;

-- Ticks that were not stored, and why: a chart shows a gap, and this is its reason.
CREATE TABLE gap (
    id      INTEGER PRIMARY KEY,
    from_ms INTEGER NOT NULL,
    to_ms   INTEGER NOT NULL CHECK (to_ms >= from_ms),
    ticks   INTEGER NOT NULL CHECK (ticks > 0),
    reason  TEXT    NOT NULL CHECK (reason <> '')
) STRICT;

-- One row: the journal's file carries the same number.
CREATE TABLE identity (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    id  INTEGER NOT NULL
) STRICT;

-- A job as JSON (src/job/mod.rs), with the columns that queries need. The checksum covers the whole row
-- (src/store/records.rs): a job whose row is damaged is refused, not believed. People query the view `job`.
CREATE TABLE job_record (
    id           INTEGER PRIMARY KEY,
    key          TEXT    NOT NULL UNIQUE,                        -- one life, one job
    started_ms   INTEGER NOT NULL,
    ended_ms     INTEGER CHECK (ended_ms >= started_ms),         -- NULL while it runs
    origin       TEXT,                                           -- vg/lv of what its snapshot is of
    read_counter INTEGER CHECK (read_counter >= 0),              -- the device's own counter, to continue from
    body         TEXT    NOT NULL CHECK (json_valid(body)),
    checksum     INTEGER NOT NULL
) STRICT;

CREATE INDEX job_started ON job_record (started_ms);             -- charts ask for the jobs of a range
CREATE INDEX job_origin ON job_record (origin, ended_ms);        -- a job's page asks for the runs before it

-- An alert as JSON (src/alert/mod.rs), likewise. People query the view `alert`.
CREATE TABLE alert_record (
    id         INTEGER PRIMARY KEY,
    raised_ms  INTEGER NOT NULL,
    cleared_ms INTEGER CHECK (cleared_ms >= raised_ms),          -- NULL while it lasts
    body       TEXT    NOT NULL CHECK (json_valid(body)),
    checksum   INTEGER NOT NULL
) STRICT;

-- Files of jobs that were imported from other hosts. Figures are computed from them.
CREATE TABLE imported (
    key  TEXT PRIMARY KEY REFERENCES job_record (key) ON DELETE CASCADE, -- the file's hash: the same file twice is one job
    file BLOB NOT NULL                                           -- gzip of JSON (src/report/file)
) STRICT, WITHOUT ROWID;

-- Numbers of jobs are in bookmarks and schedulers: the number of a deleted job is not given again.
CREATE TABLE deleted_number (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    job INTEGER NOT NULL CHECK (job > 0)                         -- the highest number of a job that was deleted
) STRICT;

CREATE VIEW job AS
SELECT id, body ->> 'kind' AS kind, key, body ->> 'name' AS name, body ->> 'vg' AS vg, body ->> 'lv' AS lv,
    body ->> 'origin' AS origin, started_ms, ended_ms, body ->> 'outcome' AS outcome,
    body ->> 'exit_status' AS exit_status,
    CAST(round((julianday(body ->> 'died_at') - 2440587.5) * 86400000) AS INTEGER) AS died_ms,
    CAST(round((julianday(body ->> 'io_error_at') - 2440587.5) * 86400000) AS INTEGER) AS io_error_ms,
    body ->> 'partly_seen' AS partly_seen,
    body ->> 'last_fill_percent' AS last_fill_percent, body ->> 'peak_fill_percent' AS peak_fill_percent,
    body ->> 'bytes_read' AS bytes_read, read_counter, body ->> 'mounted_on' AS mounted_on,
    CAST(round((julianday(body ->> 'unmounted_at') - 2440587.5) * 86400000) AS INTEGER) AS unmounted_ms,
    body -> 'setup' AS setup, body ->> '$.label.set' AS set_name, body ->> '$.label.variant' AS variant,
    body ->> '$.label.repeat' AS repeat, body -> 'notes' AS notes, body ->> 'program' AS program,
    body -> 'told_phases' AS phases, body ->> '$.heard.run' AS run,
    (SELECT CAST(round((julianday(value ->> 'at') - 2440587.5) * 86400000) AS INTEGER)
     FROM json_each(body, '$.heard.phases') WHERE value ->> 'phase' = 'flush') AS flush_ms,
    (SELECT CAST(round((julianday(value ->> 'at') - 2440587.5) * 86400000) AS INTEGER)
     FROM json_each(body, '$.heard.phases') WHERE value ->> 'phase' = 'snapshot') AS snapshot_ms,
    (SELECT CAST(round((julianday(value ->> 'at') - 2440587.5) * 86400000) AS INTEGER)
     FROM json_each(body, '$.heard.phases') WHERE value ->> 'phase' = 'mount') AS mount_ms,
    (SELECT CAST(round((julianday(value ->> 'at') - 2440587.5) * 86400000) AS INTEGER)
     FROM json_each(body, '$.heard.phases') WHERE value ->> 'phase' = 'backup') AS backup_ms,
    (SELECT CAST(round((julianday(value ->> 'at') - 2440587.5) * 86400000) AS INTEGER)
     FROM json_each(body, '$.heard.phases') WHERE value ->> 'phase' = 'cleanup') AS cleanup_ms,
    CAST(round((julianday(body ->> '$.heard.locked_from') - 2440587.5) * 86400000) AS INTEGER) AS locked_from_ms,
    CAST(round((julianday(body ->> '$.heard.locked_until') - 2440587.5) * 86400000) AS INTEGER) AS locked_until_ms,
    iif(body ->> '$.heard.reported' IS NULL, NULL,
        iif(body ->> '$.heard.reported.succeeded', 'succeeded', 'failed')) AS reported,
    CAST(round((julianday(body ->> '$.heard.reported.at') - 2440587.5) * 86400000) AS INTEGER) AS reported_ms
FROM job_record;

CREATE VIEW alert AS
SELECT id, body ->> 'rule' AS rule, body ->> 'severity' AS severity, body ->> 'vg' AS vg, body ->> 'lv' AS lv,
    body ->> 'uuid' AS uuid, body ->> 'value' AS value, raised_ms, cleared_ms, body ->> 'sentence' AS sentence
FROM alert_record;
