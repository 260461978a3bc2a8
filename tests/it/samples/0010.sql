-- The copy that failed had told two phases.
UPDATE job SET phases = '[{"at":"2026-03-01T02:00:10Z","name":"reading"},{"at":"2026-03-01T02:00:10.500Z","name":"writing"}]'
WHERE name = 'copy';
