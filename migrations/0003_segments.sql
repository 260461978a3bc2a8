-- Ticks by stream and segment instead of a row each: a hundredth of the bytes written. See README.md in this folder.
-- What `tick` holds is turned into segments by the program when it starts (src/store/convert.rs), and the table dropped.

-- Some ten minutes of ticks, or longer of roll-ups: when its rows ended and how long they were.
CREATE TABLE segment (
    id           INTEGER PRIMARY KEY,                            -- level << 36 | number; numbers grow with the writing
    from_ms      INTEGER NOT NULL,                               -- the ends of its first and of its last row
    to_ms        INTEGER NOT NULL CHECK (to_ms >= from_ms),
    rows         INTEGER NOT NULL CHECK (rows > 0),
    first_source INTEGER,                                        -- numbers of the segments of ticks
    last_source  INTEGER CHECK (last_source >= first_source),    -- that it is made of; NULL at level 0
    axis         BLOB    NOT NULL,                               -- packed (src/store/segment.rs)
    CHECK ((id >> 36 = 0) = (first_source IS NULL)),
    CHECK ((first_source IS NULL) = (last_source IS NULL))
) STRICT;

CREATE INDEX segment_ends ON segment (to_ms, from_ms);           -- every chart asks for the segments of a range

-- What a segment says of one stream (a device, a volume, the host), packed (src/store/codec).
CREATE TABLE chunk (
    id   INTEGER PRIMARY KEY,                                    -- segment's id << 24 | stream's number
    data BLOB    NOT NULL
) STRICT;

-- Ticks that could not be kept, and why: a chart shows a gap, and this is its reason.
CREATE TABLE gap (
    id      INTEGER PRIMARY KEY,
    from_ms INTEGER NOT NULL,
    to_ms   INTEGER NOT NULL CHECK (to_ms >= from_ms),
    ticks   INTEGER NOT NULL CHECK (ticks > 0),
    reason  TEXT    NOT NULL CHECK (reason <> '')
) STRICT;

-- One row: by what the files beside the database know that they are its own.
CREATE TABLE identity (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    id  INTEGER NOT NULL
) STRICT;
