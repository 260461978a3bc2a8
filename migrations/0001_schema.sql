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

-- A tick, packed (src/store/record.rs): what differs from the tick before. The first one of ten minutes is complete.
-- The id is stretch << 44 | the end of the tick; a stretch ends where the clock goes back. So ids grow with the writing,
-- new rows go to the end of the table, and a range of time is a range of ids.
CREATE TABLE tick (
    id     INTEGER PRIMARY KEY,
    record BLOB    NOT NULL
) STRICT;

-- Roll-ups: exact sums, the smallest and the largest tick. Each has the id of the last tick in it.
CREATE TABLE minute (
    id     INTEGER PRIMARY KEY,
    record BLOB    NOT NULL
) STRICT;

CREATE TABLE ten_minute (
    id         INTEGER PRIMARY KEY,
    watched_ms INTEGER NOT NULL CHECK (watched_ms >= 0),         -- the length of all ticks up to its end: its age is counted in it
    record     BLOB    NOT NULL
) STRICT;

-- Ticks that were not stored, and why: a chart shows a gap, and this is its reason.
CREATE TABLE gap (
    id      INTEGER PRIMARY KEY,
    from_ms INTEGER NOT NULL,
    to_ms   INTEGER NOT NULL CHECK (to_ms >= from_ms),
    ticks   INTEGER NOT NULL CHECK (ticks > 0),
    reason  TEXT    NOT NULL CHECK (reason <> '')
) STRICT;

-- One row: a random number, by which the daemon knows its own database again after it was moved.
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
    body -> 'phase_marks' AS phases, body ->> '$.backup_run.run' AS run,
    (SELECT CAST(round((julianday(value ->> 'at') - 2440587.5) * 86400000) AS INTEGER)
     FROM json_each(body, '$.backup_run.phases') WHERE value ->> 'phase' = 'flush') AS flush_ms,
    (SELECT CAST(round((julianday(value ->> 'at') - 2440587.5) * 86400000) AS INTEGER)
     FROM json_each(body, '$.backup_run.phases') WHERE value ->> 'phase' = 'snapshot') AS snapshot_ms,
    (SELECT CAST(round((julianday(value ->> 'at') - 2440587.5) * 86400000) AS INTEGER)
     FROM json_each(body, '$.backup_run.phases') WHERE value ->> 'phase' = 'mount') AS mount_ms,
    (SELECT CAST(round((julianday(value ->> 'at') - 2440587.5) * 86400000) AS INTEGER)
     FROM json_each(body, '$.backup_run.phases') WHERE value ->> 'phase' = 'backup') AS backup_ms,
    (SELECT CAST(round((julianday(value ->> 'at') - 2440587.5) * 86400000) AS INTEGER)
     FROM json_each(body, '$.backup_run.phases') WHERE value ->> 'phase' = 'cleanup') AS cleanup_ms,
    CAST(round((julianday(body ->> '$.backup_run.locked_from') - 2440587.5) * 86400000) AS INTEGER) AS locked_from_ms,
    CAST(round((julianday(body ->> '$.backup_run.locked_until') - 2440587.5) * 86400000) AS INTEGER) AS locked_until_ms,
    iif(body ->> '$.backup_run.reported' IS NULL, NULL,
        iif(body ->> '$.backup_run.reported.succeeded', 'succeeded', 'failed')) AS reported,
    CAST(round((julianday(body ->> '$.backup_run.reported.at') - 2440587.5) * 86400000) AS INTEGER) AS reported_ms
FROM job_record;

CREATE VIEW alert AS
SELECT id, body ->> 'rule' AS rule, body ->> 'severity' AS severity, body ->> 'vg' AS vg, body ->> 'lv' AS lv,
    body ->> 'uuid' AS uuid, body ->> 'value' AS value, raised_ms, cleared_ms, body ->> 'sentence' AS sentence
FROM alert_record;

-- The last delivery of an alert to a receiver as JSON (src/notify/delivery.rs). People query the view `delivery`.
-- Alerts are deleted without their deliveries, which follow: an alert may come later than its first delivery.
CREATE TABLE delivery_record (
    alert    INTEGER NOT NULL,
    receiver TEXT    NOT NULL CHECK (receiver <> ''),
    body     TEXT    NOT NULL CHECK (json_valid(body)),
    PRIMARY KEY (alert, receiver)
) STRICT, WITHOUT ROWID;

CREATE VIEW delivery AS
SELECT alert, receiver, body ->> '$.known.status' AS known_status, body ->> '$.known.severity' AS known_severity,
    CAST(round((julianday(body ->> '$.known.at') - 2440587.5) * 86400000) AS INTEGER) AS known_ms,
    body ->> 'is_delivered' AS is_delivered, body ->> 'tries' AS tries,
    CAST(round((julianday(body ->> 'tried_at') - 2440587.5) * 86400000) AS INTEGER) AS tried_ms,
    body ->> 'answer' AS answer
FROM delivery_record;

-- Alerts of these volumes are not delivered until then. One that is over stays until retention deletes it.
CREATE TABLE silence (
    volumes  TEXT    PRIMARY KEY CHECK (volumes <> ''),          -- a pattern of vg/lv
    until_ms INTEGER NOT NULL,
    note     TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- Which ticks the receiver of [remote_write] took, or refused for good (src/remote_write/plan.rs).
CREATE TABLE remote_write (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    done    INTEGER NOT NULL,                                    -- all up to the tick with this id
    islands TEXT    NOT NULL CHECK (json_valid(islands))         -- later ones, sent before what an outage had kept back
) STRICT;

-- How many chunks of a volume were written within each age, an hour apart, as JSON (src/sizing/curve.rs). A later start
-- of the program continues with them. Those of the two weeks before the newest are kept.
CREATE TABLE size_curve (
    uuid  TEXT    NOT NULL CHECK (uuid <> ''),                   -- of the volume
    at_ms INTEGER NOT NULL,
    body  TEXT    NOT NULL CHECK (json_valid(body)),
    PRIMARY KEY (uuid, at_ms)
) STRICT, WITHOUT ROWID;
