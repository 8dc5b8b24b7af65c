-- The stream of the host: who did what outside of runs, and a row per run that ended.
-- A host has one record with a number.

CREATE TABLE host_records (
  n     INTEGER PRIMARY KEY,
  at    INTEGER NOT NULL,
  kind  TEXT    NOT NULL,
  event INTEGER NOT NULL,               -- 1: it concerns operators at the moment
  chain BLOB    NOT NULL,               -- of this record and all before it
  body  BLOB    NOT NULL
);
CREATE INDEX host_records_event ON host_records (n) WHERE event = 1;

-- The one row is the last record that retention has removed.
CREATE TABLE host_head (
  n     INTEGER NOT NULL,
  chain BLOB    NOT NULL
);
INSERT INTO host_head VALUES (0, zeroblob(32));

CREATE TRIGGER host_records_update BEFORE UPDATE ON host_records
BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;

CREATE TRIGGER host_records_delete BEFORE DELETE ON host_records
WHEN OLD.n > (SELECT n FROM host_head)
BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;
