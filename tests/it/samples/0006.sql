-- A job of which one knows how it was set up.
UPDATE job SET setup = '{"kind":"thick","chunk_bytes":4096,"cow_bytes":67108864,"cow_pvs":["sdb"]}' WHERE id = 4;
