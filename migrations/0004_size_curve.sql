-- How many chunks of a volume were written within each age, an hour apart, as JSON (src/sizing/curve.rs). A later start
-- of the program continues with them. Those of the two weeks before the newest are kept.
CREATE TABLE size_curve (
    uuid  TEXT    NOT NULL CHECK (uuid <> ''),                   -- of the volume
    at_ms INTEGER NOT NULL,
    body  TEXT    NOT NULL CHECK (json_valid(body)),
    PRIMARY KEY (uuid, at_ms)
) STRICT, WITHOUT ROWID;
