-- Roles that administrators create, tenants of users and runs, and the keys of admin
-- actions with their answers.

CREATE TABLE roles (
  name     TEXT   COLLATE "C" PRIMARY KEY, -- qualified, without colon
  doc      TEXT   NOT NULL,
  includes TEXT   NOT NULL,                -- EDN set of keywords
  created  BIGINT NOT NULL
);

ALTER TABLE users ADD COLUMN tenant TEXT COLLATE "C" NOT NULL DEFAULT ''; -- '': the host itself

-- Runs of callers without a tenant have no row.
CREATE TABLE run_tenants (
  tenant TEXT   COLLATE "C" NOT NULL,
  run    BIGINT NOT NULL,
  PRIMARY KEY (tenant, run)
);
CREATE INDEX run_tenants_run ON run_tenants (run);

CREATE TABLE action_keys (
  key     TEXT   COLLATE "C" PRIMARY KEY, -- hash of principal, action and key
  print   TEXT   NOT NULL,                -- hash of the action
  status  BIGINT NOT NULL,                -- of the answer; 0: the action has not ended
  answer  BYTEA  NOT NULL,                -- EDN; empty: the action has not ended
  created BIGINT NOT NULL
);
CREATE INDEX action_keys_created ON action_keys (created);
