-- Users and their tokens.

CREATE TABLE identity (
  n       BIGINT PRIMARY KEY,
  version BIGINT NOT NULL       -- grows with every change of a user or token
) WITH (fillfactor = 50);
INSERT INTO identity VALUES (1, 0);

CREATE TABLE users (
  id       TEXT   COLLATE "C" PRIMARY KEY,
  login    TEXT   COLLATE "C" NOT NULL UNIQUE,
  type     TEXT   NOT NULL,
  roles    TEXT   NOT NULL,     -- EDN set of keywords
  password TEXT   NOT NULL,     -- hash in PHC format; '': none
  locked   BIGINT NOT NULL,
  created  BIGINT NOT NULL,
  changed  BIGINT NOT NULL      -- version of identity
);

CREATE TABLE tokens (
  id      TEXT   COLLATE "C" PRIMARY KEY,
  owner   TEXT   COLLATE "C" NOT NULL,  -- id of a user
  label   TEXT   NOT NULL,
  hash    BYTEA  NOT NULL,      -- SHA-256 of the text
  narrow  TEXT   NOT NULL,      -- EDN map of the rights that it has
  created BIGINT NOT NULL,
  expires BIGINT NOT NULL
);
