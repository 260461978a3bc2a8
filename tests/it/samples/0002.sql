-- A snapshot that died and was unmounted, and a tick in which a PV copied for it.
INSERT INTO job (id, kind, key, name, vg, lv, origin, started_ms, ended_ms, outcome, died_ms, partly_seen,
                 last_fill_percent, peak_fill_percent, bytes_read, read_counter, mounted_on, unmounted_ms) VALUES
    (4, 'snapshot', 'Qn2vdf-Y0ZQ-5pVY-Xvlu-yqPz-cS2r-0Wo0Mb', 'data_snapshot', 'vg0', 'data_snapshot', 'data',
        1772330500000, 1772330560000, 'overflowed', 1772330550000, 0, 99.95, 99.95, 4096, 4096, '/mnt/snap', 1772330550500);

-- One PV's share, 2 and 3 bytes; no estimates.
INSERT INTO tick (at_ms, elapsed_us, packed, more) VALUES (1772330461000, 1000000, x'000000000000', x'0102020300');
