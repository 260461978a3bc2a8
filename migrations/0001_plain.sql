-- Everything that lasts, plainly: devices and volumes by identity, one row per tick, jobs, alerts.
-- Times are milliseconds since 1970, UTC. Every table is STRICT: a wrong type is an error, not a surprise.

-- "CowB": lets the program (and `file`) tell its own database from any other.
PRAGMA application_id = 1131378498;

-- A block device, known for ever by what makes it unlike all others. Its names are the last that it had.
CREATE TABLE device (
    id           INTEGER PRIMARY KEY,
    identity     TEXT    NOT NULL UNIQUE CHECK (identity <> ''), -- one device, one row, whatever its name
    name         TEXT    NOT NULL,                               -- the kernel's, such as dm-3
    label        TEXT    NOT NULL,                               -- a person's, such as vg0/mysql
    kind         TEXT    NOT NULL,
    counts       INTEGER NOT NULL CHECK (counts IN (0, 1)),      -- whether it is part of the host's total
    last_seen_ms INTEGER NOT NULL
) STRICT;

-- An LVM volume, known by its UUID. Its rows outlive it: that is what the history of a snapshot is.
CREATE TABLE volume (
    id              INTEGER PRIMARY KEY,
    uuid            TEXT    NOT NULL UNIQUE CHECK (uuid <> ''),
    vg              TEXT    NOT NULL,
    lv              TEXT    NOT NULL,
    device_identity TEXT,                                        -- NULL while it was never active
    last_seen_ms    INTEGER NOT NULL
) STRICT;

-- One tick: what all devices did and how all volumes were, packed by the program (src/store/packed.rs).
CREATE TABLE tick (
    at_ms      INTEGER PRIMARY KEY,                              -- one tick, one instant
    elapsed_us INTEGER NOT NULL CHECK (elapsed_us >= 0),         -- by a clock that never jumps; 0 for a first tick
    packed     BLOB    NOT NULL
) STRICT;

CREATE TABLE job (
    id                INTEGER PRIMARY KEY,
    kind              TEXT    NOT NULL,
    key               TEXT    NOT NULL UNIQUE,                   -- one life, one job
    name              TEXT    NOT NULL,
    vg                TEXT,
    lv                TEXT,
    origin            TEXT,
    started_ms        INTEGER NOT NULL,
    ended_ms          INTEGER CHECK (ended_ms >= started_ms),    -- NULL while it runs
    outcome           TEXT    CHECK ((outcome IS NULL) = (ended_ms IS NULL)), -- known when it has ended, not before
    died_ms           INTEGER,
    partly_seen       INTEGER NOT NULL CHECK (partly_seen IN (0, 1)),
    last_fill_percent REAL,
    peak_fill_percent REAL,
    bytes_read        INTEGER CHECK (bytes_read >= 0),
    read_counter      INTEGER CHECK (read_counter >= 0)          -- what its device's counter said, to go on from
) STRICT;

CREATE INDEX job_started ON job (started_ms);                    -- charts ask for the jobs of a range

CREATE TABLE alert (
    id         INTEGER PRIMARY KEY,
    rule       TEXT    NOT NULL,
    severity   TEXT    NOT NULL,
    vg         TEXT    NOT NULL,
    lv         TEXT    NOT NULL,
    uuid       TEXT    NOT NULL,
    value      REAL,
    raised_ms  INTEGER NOT NULL,
    cleared_ms INTEGER CHECK (cleared_ms >= raised_ms),          -- NULL while it lasts
    sentence   TEXT    NOT NULL
) STRICT;

CREATE INDEX alert_raised ON alert (raised_ms);                  -- pages list the latest first
