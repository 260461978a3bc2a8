-- To which set of runs a job belongs, what somebody noted of it, and which program made its snapshot.

ALTER TABLE job ADD COLUMN set_name TEXT;                        -- NULL: it belongs to none
ALTER TABLE job ADD COLUMN variant TEXT                          -- a set without one has a single variant
    CHECK (variant IS NULL OR set_name IS NOT NULL);
ALTER TABLE job ADD COLUMN repeat INTEGER                        -- from 1; NULL where nobody counted
    CHECK (repeat IS NULL OR (repeat > 0 AND set_name IS NOT NULL));
ALTER TABLE job ADD COLUMN notes TEXT                            -- JSON: [{"at": …, "text": …}], in the order of time
    CHECK (notes IS NULL OR json_valid(notes));
ALTER TABLE job ADD COLUMN program TEXT;                         -- its name only: a command line may hold a password
