-- Roles that administrators create, tenants of users and runs, and the keys of admin
-- actions with their answers.

CREATE TABLE roles (
  n        INTEGER PRIMARY KEY,
  name     TEXT    NOT NULL UNIQUE, -- qualified, without colon
  doc      TEXT    NOT NULL,
  includes TEXT    NOT NULL,        -- EDN set of keywords
  created  INTEGER NOT NULL
);

ALTER TABLE users ADD COLUMN tenant TEXT NOT NULL DEFAULT ''; -- '': the host itself

-- Runs of callers without a tenant have no row.
CREATE TABLE run_tenants (
  tenant TEXT    NOT NULL,
  run    INTEGER NOT NULL,
  PRIMARY KEY (tenant, run)
) WITHOUT ROWID;
CREATE INDEX run_tenants_run ON run_tenants (run);

CREATE TABLE action_keys (
  n       INTEGER PRIMARY KEY,
  key     TEXT    NOT NULL UNIQUE, -- hash of principal, action and key
  print   TEXT    NOT NULL,        -- hash of the action
  status  INTEGER NOT NULL,        -- of the answer; 0: the action has not ended
  answer  BLOB    NOT NULL,        -- EDN; empty: the action has not ended
  created INTEGER NOT NULL
);
CREATE INDEX action_keys_created ON action_keys (created);
