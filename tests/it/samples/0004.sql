INSERT INTO size_curve (uuid, at_ms, body) VALUES ('9fjWVy-lcsr-GWcN-YlRH-r8Ie-6BEU-lHGEvC', 1772330400000,
    '{"at":"2026-03-01T02:00:00Z","is_thin":false,"measured_min":60,"discarded_min":null,"chunks":[{"bytes":4096,"counts":[1,2,3,5,8,9,10,12,20,31]}]}');
