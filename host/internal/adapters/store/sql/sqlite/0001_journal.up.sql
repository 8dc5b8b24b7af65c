-- Runs, their records and the values that records name. Times are nanoseconds
-- since 1970 in UTC; hashes and chain values are the 32 bytes of a BLAKE3-256 sum.

CREATE TABLE runs (
  n         INTEGER PRIMARY KEY,
  id        TEXT    NOT NULL UNIQUE,
  state     TEXT    NOT NULL,           -- open, or the status of run/finished
  epoch     INTEGER NOT NULL,
  records   INTEGER NOT NULL,           -- number of the last record
  chain     BLOB    NOT NULL,           -- chain value of the last record
  bytes     INTEGER NOT NULL,           -- records, and values that this run stored first
  accepted  INTEGER NOT NULL,
  finished  INTEGER NOT NULL DEFAULT 0,
  latency   INTEGER NOT NULL DEFAULT 0, -- nanoseconds
  intent    TEXT    NOT NULL DEFAULT '',
  principal TEXT    NOT NULL DEFAULT '',
  cost      TEXT    NOT NULL DEFAULT '', -- decimal USD of all attempts
  error     TEXT    NOT NULL DEFAULT '', -- type
  key       TEXT    NOT NULL DEFAULT '', -- hash of its idempotency key
  imported  INTEGER NOT NULL DEFAULT 0,
  pinned    INTEGER NOT NULL DEFAULT 0,
  purged    INTEGER NOT NULL DEFAULT 0,  -- time at which the values were deleted
  removed   INTEGER NOT NULL DEFAULT 0   -- time at which the records were deleted
);
CREATE UNIQUE INDEX runs_key ON runs (key) WHERE key <> '' AND imported = 0 AND removed = 0;
CREATE INDEX runs_open ON runs (n) WHERE state = 'open';

-- id is (run << 32) | seq, so that the records of a run are neighbors.
CREATE TABLE records (
  id    INTEGER PRIMARY KEY,
  chain BLOB NOT NULL,
  body  BLOB NOT NULL
);

-- owner is the run that stored the value first; shared lists other runs.
CREATE TABLE content (
  n     INTEGER PRIMARY KEY,
  hash  BLOB    NOT NULL UNIQUE,
  owner INTEGER NOT NULL,
  form  INTEGER NOT NULL,
  size  INTEGER NOT NULL,
  body  BLOB                            -- NULL: in the file named by the hash
);

CREATE TABLE shared (
  content INTEGER NOT NULL,
  run     INTEGER NOT NULL,
  PRIMARY KEY (content, run)
) WITHOUT ROWID;

CREATE TRIGGER records_update BEFORE UPDATE ON records
BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;

CREATE TRIGGER records_delete BEFORE DELETE ON records
WHEN (SELECT removed FROM runs WHERE n = OLD.id >> 32) = 0
BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;

CREATE TRIGGER content_update BEFORE UPDATE OF n, hash, form, size, body ON content
BEGIN SELECT RAISE(ABORT, 'values are append-only'); END;

CREATE TRIGGER content_delete BEFORE DELETE ON content
WHEN (SELECT removed = 0 AND purged = 0 FROM runs WHERE n = OLD.owner)
BEGIN SELECT RAISE(ABORT, 'values are append-only'); END;

CREATE TRIGGER runs_delete BEFORE DELETE ON runs
BEGIN SELECT RAISE(ABORT, 'runs are append-only'); END;

CREATE TRIGGER runs_update BEFORE UPDATE OF n, id, accepted ON runs
BEGIN SELECT RAISE(ABORT, 'runs are append-only'); END;
