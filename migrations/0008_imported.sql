-- Jobs that were brought here from other hosts: their files, from which figures are computed anew.

CREATE TABLE imported (
    key  TEXT PRIMARY KEY REFERENCES job (key) ON DELETE CASCADE, -- of the file, so that the same file twice is one job
    file BLOB NOT NULL                                            -- gzip of the JSON that src/report/file/mod.rs describes
) STRICT, WITHOUT ROWID;
