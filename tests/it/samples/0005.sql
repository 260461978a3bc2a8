-- A backup that reported success, from a snapshot that had died; and a command with its exit status.
INSERT INTO job (id, kind, key, name, vg, lv, origin, started_ms, ended_ms, outcome, died_ms, partly_seen,
                 last_fill_percent, peak_fill_percent, bytes_read, read_counter, mounted_on, unmounted_ms,
                 run, flush_ms, snapshot_ms, mount_ms, backup_ms, cleanup_ms, locked_from_ms, locked_until_ms,
                 reported, reported_ms, io_error_ms, exit_status) VALUES
    (5, 'snapshot', 'Hk2vdf-Y0ZQ-5pVY-Xvlu-yqPz-cS2r-0Wo0Mb', 'data_snapshot', 'vg0', 'data_snapshot', 'data',
        1772330600000, 1772330660000, 'untrustworthy', 1772330650000, 0, 99.95, 99.95, 4096, 4096, '/mnt/snap', 1772330659000,
        4711, 1772330600000, 1772330601000, 1772330602500, 1772330603000, 1772330658000, 1772330600000, 1772330602000,
        'succeeded', 1772330657900, NULL, NULL);
UPDATE job SET exit_status = 3 WHERE id = 2;
