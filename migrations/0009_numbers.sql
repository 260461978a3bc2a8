-- Numbers of jobs are in bookmarks and in schedulers: that of a deleted one is not given again.

CREATE TABLE deleted_number (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    job INTEGER NOT NULL CHECK (job > 0) -- the highest number of a job that was deleted
) STRICT;
