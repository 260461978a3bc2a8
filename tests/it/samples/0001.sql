-- A host with a disk and two volumes on it: a job that overflowed, one that failed, one that runs; an alert that is
-- over and one that lasts.
INSERT INTO device (id, identity, name, label, kind, counts, last_seen_ms) VALUES
    (1, 'S1', 'sda', 'PV of vg0', 'disk', 1, 1772330460000),
    (2, 'LVM-ItZNPisw1YqMR0M1uiKz8lnAXbZGUKiOYSAcT6J7pWWXJAvygnkLAzEHyRzaUS5D', 'dm-3', 'vg0/data_snapshot', 'dm', 0, 1772330460000);

INSERT INTO volume (id, uuid, vg, lv, device_identity, last_seen_ms) VALUES
    (1, 'Awjex8-GFrO-cwLc-VpnJ-PutS-Gr7J-dKI9hT', 'vg0', 'data', NULL, 1772330460000),
    (2, 'YSAcT6-J7pW-WXJA-vygn-kLAz-EHyR-zaUS5D', 'vg0', 'data_snapshot',
        'LVM-ItZNPisw1YqMR0M1uiKz8lnAXbZGUKiOYSAcT6J7pWWXJAvygnkLAzEHyRzaUS5D', 1772330460000);

-- Nothing is packed in it but an empty list of devices, one of volumes, and a host of which nothing is known.
INSERT INTO tick (at_ms, elapsed_us, packed) VALUES
    (1772330459000, 0, x'000000000000'),
    (1772330460000, 1000000, x'000000000000');

INSERT INTO job (id, kind, key, name, vg, lv, origin, started_ms, ended_ms, outcome, died_ms, partly_seen,
                 last_fill_percent, peak_fill_percent, bytes_read, read_counter) VALUES
    (1, 'snapshot', 'YSAcT6-J7pW-WXJA-vygn-kLAz-EHyR-zaUS5D', 'data_snapshot', 'vg0', 'data_snapshot', 'data',
        1772330400000, 1772330450000, 'overflowed', 1772330440000, 0, 99.95, 99.95, 1992294400, 1992294400),
    (2, 'command', 'run-1-1', 'copy', NULL, NULL, NULL, 1772330410000, 1772330411000, 'failed', NULL, 0,
        NULL, NULL, NULL, NULL),
    (3, 'mark', 'night', 'nightly', NULL, NULL, NULL, 1772330420000, NULL, NULL, NULL, 1, NULL, NULL, 4096, NULL);

INSERT INTO alert (id, rule, severity, vg, lv, uuid, value, raised_ms, cleared_ms, sentence) VALUES
    (1, 'snapshot_fill', 'critical', 'vg0', 'data_snapshot', 'YSAcT6-J7pW-WXJA-vygn-kLAz-EHyR-zaUS5D', 85.0,
        1772330430000, 1772330440000, 'Snapshot vg0/data_snapshot is at 20.00 % again.'),
    (2, 'pool_data', 'warning', 'vg0', 'pool', 'anBmng-2003-HHvo-K3Za-fMs5-B2BF-5I0ECQ', 71.0,
        1772330435000, NULL, 'Thin pool vg0/pool is 71.00 % full.');
