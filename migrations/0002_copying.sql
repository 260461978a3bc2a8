-- What thick snapshots cost, how full they probably are where nobody may ask, and what became of their mounts.

-- What only some ticks have, packed by the program (src/store/packed.rs): copying for snapshots by PV, estimated fills.
-- NULL where there is neither, which is most of the time.
ALTER TABLE tick ADD COLUMN more BLOB;

ALTER TABLE job ADD COLUMN mounted_on TEXT;                      -- the last folder that its snapshot was mounted on
ALTER TABLE job ADD COLUMN unmounted_ms INTEGER                  -- NULL while it is mounted
    CHECK (unmounted_ms IS NULL OR mounted_on IS NOT NULL);
