-- Users and their tokens. A repair that has to read single pages does not look for
-- their rows: a page that is free may have a token that was revoked.

CREATE TABLE identity (
  n       INTEGER PRIMARY KEY,
  version INTEGER NOT NULL      -- grows with every change of a user or token
);
INSERT INTO identity VALUES (1, 0);

CREATE TABLE users (
  n        INTEGER PRIMARY KEY,
  id       TEXT    NOT NULL UNIQUE,
  login    TEXT    NOT NULL UNIQUE,
  type     TEXT    NOT NULL,
  roles    TEXT    NOT NULL,    -- EDN set of keywords
  password TEXT    NOT NULL,    -- hash in PHC format; '': none
  locked   INTEGER NOT NULL,
  created  INTEGER NOT NULL,
  changed  INTEGER NOT NULL     -- version of identity
);

CREATE TABLE tokens (
  n       INTEGER PRIMARY KEY,
  id      TEXT    NOT NULL UNIQUE,
  owner   TEXT    NOT NULL,     -- id of a user
  label   TEXT    NOT NULL,
  hash    BLOB    NOT NULL,     -- SHA-256 of the text
  narrow  TEXT    NOT NULL,     -- EDN map of the rights that it has
  created INTEGER NOT NULL,
  expires INTEGER NOT NULL
);
