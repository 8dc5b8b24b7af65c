-- Conversations: paths of turns with their selected spans, and the messages of spans.
-- The columns of each table differ in number or type from those of every other table,
-- by which a repair knows its rows.

CREATE TABLE conversations (
  n        INTEGER PRIMARY KEY,
  id       TEXT    NOT NULL UNIQUE,
  owner    TEXT    NOT NULL,
  session  TEXT    NOT NULL,  -- '': none
  version  INTEGER NOT NULL,
  turns    INTEGER NOT NULL,  -- on the path
  archived INTEGER NOT NULL,
  created  INTEGER NOT NULL,
  updated  INTEGER NOT NULL,
  about    TEXT    NOT NULL   -- EDN map
);
CREATE INDEX conversations_owner ON conversations (owner, id);

-- The steps of all versions of a path: a step belongs to the versions from since to
-- before ended, which is 2^63 - 1 for the current one.
CREATE TABLE conversation_path (
  n            INTEGER PRIMARY KEY,
  conversation INTEGER NOT NULL,
  position     INTEGER NOT NULL,
  since        INTEGER NOT NULL,
  ended        INTEGER NOT NULL,
  turn         INTEGER NOT NULL,
  span         INTEGER NOT NULL,
  stale        INTEGER NOT NULL
);
CREATE INDEX conversation_path_ended ON conversation_path (conversation, ended, position);

-- A turn has the number of its first span.
CREATE TABLE conversation_spans (
  n    INTEGER PRIMARY KEY,
  turn INTEGER NOT NULL,  -- 0: this is the first span of its turn
  role TEXT    NOT NULL,  -- of the turn
  at   INTEGER NOT NULL
);
CREATE INDEX conversation_spans_turn ON conversation_spans (turn) WHERE turn > 0;

CREATE TABLE conversation_messages (
  n        INTEGER PRIMARY KEY,
  span     INTEGER NOT NULL,
  position INTEGER NOT NULL,
  content  INTEGER NOT NULL,
  origin   TEXT    NOT NULL,  -- EDN map of its attribution; '': none
  UNIQUE (span, position)
);

CREATE TABLE conversation_content (
  n    INTEGER PRIMARY KEY,
  hash BLOB    NOT NULL UNIQUE,
  size INTEGER NOT NULL,
  body BLOB    NOT NULL       -- canonical EDN of a message
);

CREATE TABLE conversation_commits (
  n            INTEGER PRIMARY KEY,
  conversation INTEGER NOT NULL,
  version      INTEGER NOT NULL,
  kind         TEXT    NOT NULL,
  key          TEXT    NOT NULL,  -- effect key of the call; '': none
  at           INTEGER NOT NULL,
  UNIQUE (conversation, version)
);
CREATE UNIQUE INDEX conversation_commits_key ON conversation_commits (conversation, key) WHERE key <> '';

CREATE TABLE conversation_drafts (
  n            INTEGER PRIMARY KEY,
  conversation INTEGER NOT NULL,
  key          TEXT    NOT NULL,
  run          TEXT    NOT NULL,
  body         BLOB    NOT NULL,  -- canonical EDN of a message
  at           INTEGER NOT NULL,
  UNIQUE (conversation, key)
);

CREATE TABLE conversation_summaries (
  n            INTEGER PRIMARY KEY,
  conversation INTEGER NOT NULL,
  turns        INTEGER NOT NULL,
  basis        BLOB    NOT NULL,  -- BLAKE3-256 of the numbers of the spans
  said         TEXT    NOT NULL,
  at           INTEGER NOT NULL,
  UNIQUE (conversation, turns, basis)
);
