-- Sessions, their variables and their turns. The columns of each table differ in
-- number or type from those of every other table, by which a repair knows its rows.

CREATE TABLE sessions (
  n         INTEGER PRIMARY KEY,
  id        TEXT    NOT NULL UNIQUE,
  owner     TEXT    NOT NULL,
  version   INTEGER NOT NULL,
  frozen    INTEGER NOT NULL,  -- 0: hot; else 1 and the cause of the freeze
  created   INTEGER NOT NULL,
  updated   INTEGER NOT NULL,
  accessed  INTEGER NOT NULL,
  frozen_at INTEGER NOT NULL,
  thawed_at INTEGER NOT NULL,
  notes     TEXT    NOT NULL   -- EDN map
);
CREATE INDEX sessions_owner ON sessions (owner, id);
CREATE INDEX sessions_hot ON sessions (frozen) WHERE frozen = 0;

CREATE TABLE session_vars (
  n       INTEGER PRIMARY KEY,
  session INTEGER NOT NULL,
  key     TEXT    NOT NULL,
  expires INTEGER NOT NULL,    -- 0: never
  value   BLOB    NOT NULL,    -- canonical EDN
  UNIQUE (session, key)
);
CREATE INDEX session_vars_expires ON session_vars (expires) WHERE expires > 0;

CREATE TABLE session_turns (
  n       INTEGER PRIMARY KEY,
  session INTEGER NOT NULL,
  role    TEXT    NOT NULL,
  said    TEXT    NOT NULL,
  run     TEXT    NOT NULL,
  at      INTEGER NOT NULL
);
CREATE INDEX session_turns_session ON session_turns (session, n);
