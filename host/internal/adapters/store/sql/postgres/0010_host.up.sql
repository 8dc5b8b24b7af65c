-- The stream of the hosts: who did what outside of runs, and a row per run that ended.

CREATE TABLE host_records (
  n     BIGINT PRIMARY KEY,
  at    BIGINT NOT NULL,
  kind  TEXT   COLLATE "C" NOT NULL,
  event BIGINT NOT NULL,               -- 1: it concerns operators at the moment
  chain BYTEA  NOT NULL,               -- of this record and all before it
  body  BYTEA  NOT NULL
);
CREATE INDEX host_records_event ON host_records (n) WHERE event = 1;

-- The one row is the last record that retention has removed.
CREATE TABLE host_head (
  n     BIGINT NOT NULL,
  chain BYTEA  NOT NULL
);
INSERT INTO host_head VALUES (0, decode(repeat('00', 32), 'hex'));

CREATE FUNCTION host_records_delete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.n > (SELECT n FROM host_head) THEN RAISE EXCEPTION 'records are append-only'; END IF;
  RETURN OLD;
END $$;

CREATE TRIGGER host_records_update BEFORE UPDATE ON host_records
FOR EACH ROW EXECUTE FUNCTION append_only('records');
CREATE TRIGGER host_records_delete BEFORE DELETE ON host_records
FOR EACH ROW EXECUTE FUNCTION host_records_delete();
CREATE TRIGGER host_records_truncate BEFORE TRUNCATE ON host_records
FOR EACH STATEMENT EXECUTE FUNCTION append_only('records');
