-- Runs, their records and the values that records name. Times are nanoseconds
-- since 1970 in UTC; hashes and chain values are the 32 bytes of a BLAKE3-256 sum.

-- The one row is locked by each transaction that writes, so that they follow each
-- other as they do with one host. erased counts deletions of values.
CREATE TABLE head (
  erased BIGINT NOT NULL
);
INSERT INTO head VALUES (0);

-- The hosts that have written. Leases are compared with the clock of the database.
CREATE TABLE hosts (
  n         BIGINT      PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  id        TEXT        COLLATE "C" NOT NULL UNIQUE,
  boot      TEXT        COLLATE "C" NOT NULL,           -- changes whenever the host opens the database; empty: it has left
  until     TIMESTAMPTZ NOT NULL,                       -- end of the lease
  commits   BIGINT      NOT NULL DEFAULT 0,             -- transactions of the host
  taken     BIGINT      NOT NULL DEFAULT 0,             -- takeovers of its runs by other hosts
  dropped   BIGINT      NOT NULL DEFAULT 0              -- those after which it has nothing reserved
) WITH (fillfactor = 50);

CREATE TABLE runs (
  n         BIGINT  PRIMARY KEY,
  id        TEXT    COLLATE "C" NOT NULL UNIQUE,
  state     TEXT    COLLATE "C" NOT NULL,             -- open, or the status of run/finished
  epoch     BIGINT  NOT NULL,
  records   BIGINT  NOT NULL,                         -- number of the last record
  chain     BYTEA   NOT NULL,                         -- chain value of the last record
  bytes     BIGINT  NOT NULL,                         -- records, and values that this run stored first
  accepted  BIGINT  NOT NULL,
  finished  BIGINT  NOT NULL DEFAULT 0,
  latency   BIGINT  NOT NULL DEFAULT 0,               -- nanoseconds
  intent    TEXT    COLLATE "C" NOT NULL DEFAULT '',
  principal TEXT    COLLATE "C" NOT NULL DEFAULT '',
  cost      TEXT    COLLATE "C" NOT NULL DEFAULT '',  -- decimal USD of all attempts
  error     TEXT    COLLATE "C" NOT NULL DEFAULT '',  -- type
  key       TEXT    COLLATE "C" NOT NULL DEFAULT '',  -- hash of its idempotency key
  imported  BOOLEAN NOT NULL DEFAULT false,
  pinned    BOOLEAN NOT NULL DEFAULT false,
  purged    BIGINT  NOT NULL DEFAULT 0,               -- time at which the values were deleted
  removed   BIGINT  NOT NULL DEFAULT 0,               -- time at which the records were deleted
  host      BIGINT  NOT NULL REFERENCES hosts (n)     -- the one that may append to it
            DEFAULT current_setting('ferment.host')::bigint
);
CREATE UNIQUE INDEX runs_key ON runs (key) WHERE key <> '' AND NOT imported AND removed = 0;
CREATE INDEX runs_open ON runs (n) WHERE state IN ('open', 'suspended');

CREATE TABLE records (
  run   BIGINT NOT NULL,
  seq   BIGINT NOT NULL,
  chain BYTEA  NOT NULL,
  body  BYTEA  NOT NULL,
  PRIMARY KEY (run, seq)
);

-- owner is the run that stored the value first; shared lists other runs.
CREATE TABLE content (
  n     BIGINT PRIMARY KEY,
  hash  BYTEA  NOT NULL UNIQUE,
  owner BIGINT NOT NULL,
  form  BIGINT NOT NULL,
  size  BIGINT NOT NULL,
  body  BYTEA  NOT NULL
);

CREATE TABLE shared (
  content BIGINT NOT NULL,
  run     BIGINT NOT NULL,
  PRIMARY KEY (content, run)
);

CREATE FUNCTION append_only() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION '% are append-only', TG_ARGV[0]; END $$;

CREATE FUNCTION records_delete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (SELECT removed FROM runs WHERE n = OLD.run) = 0 THEN RAISE EXCEPTION 'records are append-only'; END IF;
  RETURN OLD;
END $$;

CREATE FUNCTION content_delete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (SELECT removed = 0 AND purged = 0 FROM runs WHERE n = OLD.owner) THEN
    RAISE EXCEPTION 'values are append-only';
  END IF;
  RETURN OLD;
END $$;

CREATE FUNCTION content_erased() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN UPDATE head SET erased = erased + 1; RETURN NULL; END $$;

CREATE TRIGGER records_update BEFORE UPDATE ON records
FOR EACH ROW EXECUTE FUNCTION append_only('records');
CREATE TRIGGER records_delete BEFORE DELETE ON records
FOR EACH ROW EXECUTE FUNCTION records_delete();
CREATE TRIGGER records_truncate BEFORE TRUNCATE ON records
FOR EACH STATEMENT EXECUTE FUNCTION append_only('records');
CREATE TRIGGER content_update BEFORE UPDATE OF n, hash, form, size, body ON content
FOR EACH ROW EXECUTE FUNCTION append_only('values');
CREATE TRIGGER content_delete BEFORE DELETE ON content
FOR EACH ROW EXECUTE FUNCTION content_delete();
CREATE TRIGGER content_erased AFTER DELETE ON content
FOR EACH STATEMENT EXECUTE FUNCTION content_erased();
CREATE TRIGGER content_truncate BEFORE TRUNCATE ON content
FOR EACH STATEMENT EXECUTE FUNCTION append_only('values');
CREATE TRIGGER runs_delete BEFORE DELETE ON runs
FOR EACH ROW EXECUTE FUNCTION append_only('runs');
CREATE TRIGGER runs_truncate BEFORE TRUNCATE ON runs
FOR EACH STATEMENT EXECUTE FUNCTION append_only('runs');
CREATE TRIGGER runs_update BEFORE UPDATE OF n, id, accepted ON runs
FOR EACH ROW EXECUTE FUNCTION append_only('runs');
