-- Sessions, their variables and their turns. Texts of callers are bytes: they may
-- have the character U+0000, which TEXT cannot keep.

CREATE TABLE sessions (
  n         BIGINT  PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  id        TEXT    COLLATE "C" NOT NULL UNIQUE,
  owner     TEXT    COLLATE "C" NOT NULL,
  version   BIGINT  NOT NULL,
  frozen    BIGINT  NOT NULL,  -- 0: hot; else 1 and the cause of the freeze
  created   BIGINT  NOT NULL,
  updated   BIGINT  NOT NULL,
  accessed  BIGINT  NOT NULL,
  frozen_at BIGINT  NOT NULL,
  thawed_at BIGINT  NOT NULL,
  notes     BYTEA   NOT NULL   -- EDN map
);
CREATE INDEX sessions_owner ON sessions (owner, id);
CREATE INDEX sessions_hot ON sessions (frozen) WHERE frozen = 0;

CREATE TABLE session_vars (
  session BIGINT NOT NULL,
  key     TEXT   COLLATE "C" NOT NULL,
  expires BIGINT NOT NULL,    -- 0: never
  value   BYTEA  NOT NULL,    -- canonical EDN
  PRIMARY KEY (session, key)
);
CREATE INDEX session_vars_expires ON session_vars (expires) WHERE expires > 0;

CREATE TABLE session_turns (
  session BIGINT NOT NULL,
  n       BIGINT GENERATED ALWAYS AS IDENTITY,
  role    TEXT   NOT NULL,
  said    BYTEA  NOT NULL,
  run     TEXT   COLLATE "C" NOT NULL,
  at      BIGINT NOT NULL,
  PRIMARY KEY (session, n)
);
