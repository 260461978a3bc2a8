-- Records beside the ticks of an export: plain tables, times in ISO 8601, UTC. `stored` is the database.

CREATE TABLE devices (
    id        INTEGER PRIMARY KEY,
    identity  TEXT UNIQUE,
    name      TEXT    NOT NULL,
    label     TEXT    NOT NULL,
    kind      TEXT    NOT NULL,
    counts    INTEGER NOT NULL,
    last_seen TEXT
) STRICT;

-- All disks together, each byte once.
INSERT INTO devices VALUES (0, NULL, 'total', 'total', 'total', 0, NULL);
INSERT INTO devices
    SELECT id, identity, name, label, kind, counts, strftime('%Y-%m-%dT%H:%M:%fZ', last_seen_ms / 1000.0, 'unixepoch')
    FROM stored.device;

CREATE TABLE volumes (
    id        INTEGER PRIMARY KEY,
    uuid      TEXT    NOT NULL UNIQUE,
    vg        TEXT    NOT NULL,
    lv        TEXT    NOT NULL,
    device    INTEGER REFERENCES devices (id),
    last_seen TEXT
) STRICT;

INSERT INTO volumes
    SELECT volume.id, uuid, vg, lv, device.id,
        strftime('%Y-%m-%dT%H:%M:%fZ', volume.last_seen_ms / 1000.0, 'unixepoch')
    FROM stored.volume LEFT JOIN stored.device ON device.identity = volume.device_identity;

CREATE TABLE jobs (
    id                INTEGER PRIMARY KEY,
    kind              TEXT    NOT NULL,
    name              TEXT    NOT NULL,
    vg                TEXT,
    lv                TEXT,
    origin            TEXT,
    started           TEXT    NOT NULL,
    ended             TEXT,
    outcome           TEXT,
    died              TEXT,
    partly_seen       INTEGER NOT NULL,
    last_fill_percent REAL,
    peak_fill_percent REAL,
    bytes_read        INTEGER,
    mounted_on        TEXT,
    unmounted         TEXT,
    flush             TEXT,
    snapshot          TEXT,
    mount             TEXT,
    backup            TEXT,
    cleanup           TEXT,
    locked_from       TEXT,
    locked_until      TEXT,
    reported          TEXT,
    io_error          TEXT,
    exit_status       INTEGER
) STRICT;

INSERT INTO jobs
    SELECT id, kind, name, vg, lv, origin, strftime('%Y-%m-%dT%H:%M:%fZ', started_ms / 1000.0, 'unixepoch'),
        strftime('%Y-%m-%dT%H:%M:%fZ', ended_ms / 1000.0, 'unixepoch'), outcome,
        strftime('%Y-%m-%dT%H:%M:%fZ', died_ms / 1000.0, 'unixepoch'), partly_seen, last_fill_percent,
        peak_fill_percent, bytes_read, mounted_on, strftime('%Y-%m-%dT%H:%M:%fZ', unmounted_ms / 1000.0, 'unixepoch'),
        strftime('%Y-%m-%dT%H:%M:%fZ', flush_ms / 1000.0, 'unixepoch'), strftime('%Y-%m-%dT%H:%M:%fZ', snapshot_ms / 1000.0, 'unixepoch'),
        strftime('%Y-%m-%dT%H:%M:%fZ', mount_ms / 1000.0, 'unixepoch'), strftime('%Y-%m-%dT%H:%M:%fZ', backup_ms / 1000.0, 'unixepoch'),
        strftime('%Y-%m-%dT%H:%M:%fZ', cleanup_ms / 1000.0, 'unixepoch'), strftime('%Y-%m-%dT%H:%M:%fZ', locked_from_ms / 1000.0, 'unixepoch'),
        strftime('%Y-%m-%dT%H:%M:%fZ', locked_until_ms / 1000.0, 'unixepoch'), reported,
        strftime('%Y-%m-%dT%H:%M:%fZ', io_error_ms / 1000.0, 'unixepoch'), exit_status
    FROM stored.job, export
    WHERE started_ms <= to_ms AND coalesce(ended_ms, to_ms) >= from_ms AND key NOT LIKE 'imported:%' ORDER BY id;

CREATE TABLE alerts (
    id       INTEGER PRIMARY KEY,
    rule     TEXT NOT NULL,
    severity TEXT NOT NULL,
    vg       TEXT NOT NULL,
    lv       TEXT NOT NULL,
    uuid     TEXT NOT NULL,
    value    REAL,
    raised   TEXT NOT NULL,
    cleared  TEXT,
    sentence TEXT NOT NULL
) STRICT;

INSERT INTO alerts
    SELECT id, rule, severity, vg, lv, uuid, value, strftime('%Y-%m-%dT%H:%M:%fZ', raised_ms / 1000.0, 'unixepoch'),
        strftime('%Y-%m-%dT%H:%M:%fZ', cleared_ms / 1000.0, 'unixepoch'), sentence
    FROM stored.alert, export WHERE raised_ms <= to_ms AND coalesce(cleared_ms, to_ms) >= from_ms ORDER BY id;

CREATE TABLE gaps (
    "from" TEXT    NOT NULL,
    "to"   TEXT    NOT NULL,
    ticks  INTEGER NOT NULL,
    reason TEXT    NOT NULL
) STRICT;

INSERT INTO gaps
    SELECT strftime('%Y-%m-%dT%H:%M:%fZ', gap.from_ms / 1000.0, 'unixepoch'),
        strftime('%Y-%m-%dT%H:%M:%fZ', gap.to_ms / 1000.0, 'unixepoch'), ticks, reason
    FROM stored.gap, export WHERE gap.from_ms <= export.to_ms AND gap.to_ms >= export.from_ms ORDER BY gap.from_ms;
