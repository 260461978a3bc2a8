-- Which ticks the receiver of [remote_write] took, or refused for good (src/store/sent.rs).
CREATE TABLE remote_write (
    one          INTEGER PRIMARY KEY CHECK (one = 1),
    done_segment INTEGER NOT NULL,                               -- all up to this tick: its segment,
    done_ms      INTEGER NOT NULL,                               -- and when it ended
    islands      TEXT    NOT NULL CHECK (json_valid(islands))    -- later ones, sent before what an outage had kept back
) STRICT;
