-- The copy that failed had told two phases.
UPDATE job SET phases = '[{"at":"1970-01-01T00:00:01Z","name":"reading"},{"at":"1970-01-01T00:00:01.500Z","name":"writing"}]'
WHERE name = 'copy';
