-- Conversations: paths of turns with their selected spans, and the messages of spans.
-- Texts of callers are bytes: they may have the character U+0000, which TEXT cannot keep.

CREATE TABLE conversations (
  n        BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  id       TEXT COLLATE "C" NOT NULL UNIQUE,
  owner    TEXT COLLATE "C" NOT NULL,
  session  TEXT COLLATE "C" NOT NULL,  -- '': none
  version  BIGINT NOT NULL,
  turns    BIGINT NOT NULL,  -- on the path
  archived BIGINT NOT NULL,
  created  BIGINT NOT NULL,
  updated  BIGINT NOT NULL,
  about    BYTEA NOT NULL   -- EDN map
);
CREATE INDEX conversations_owner ON conversations (owner, id);

-- The steps of all versions of a path: a step belongs to the versions from since to
-- before ended, which is 2^63 - 1 for the current one.
CREATE TABLE conversation_path (
  n            BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  conversation BIGINT NOT NULL,
  position     BIGINT NOT NULL,
  since        BIGINT NOT NULL,
  ended        BIGINT NOT NULL,
  turn         BIGINT NOT NULL,
  span         BIGINT NOT NULL,
  stale        BIGINT NOT NULL
);
CREATE INDEX conversation_path_ended ON conversation_path (conversation, ended, position);

-- A turn has the number of its first span.
CREATE TABLE conversation_spans (
  n    BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  turn BIGINT NOT NULL,  -- 0: this is the first span of its turn
  role TEXT COLLATE "C" NOT NULL,  -- of the turn
  at   BIGINT NOT NULL
);
CREATE INDEX conversation_spans_turn ON conversation_spans (turn) WHERE turn > 0;

CREATE TABLE conversation_messages (
  n        BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  span     BIGINT NOT NULL,
  position BIGINT NOT NULL,
  content  BIGINT NOT NULL,
  origin   BYTEA NOT NULL,  -- EDN map of its attribution; '': none
  UNIQUE (span, position)
);

CREATE TABLE conversation_content (
  n    BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  hash BYTEA NOT NULL UNIQUE,
  size BIGINT NOT NULL,
  body BYTEA NOT NULL       -- canonical EDN of a message
);

CREATE TABLE conversation_commits (
  n            BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  conversation BIGINT NOT NULL,
  version      BIGINT NOT NULL,
  kind         TEXT COLLATE "C" NOT NULL,
  key          TEXT COLLATE "C" NOT NULL,  -- effect key of the call; '': none
  at           BIGINT NOT NULL,
  UNIQUE (conversation, version)
);
CREATE UNIQUE INDEX conversation_commits_key ON conversation_commits (conversation, key) WHERE key <> '';

CREATE TABLE conversation_drafts (
  n            BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  conversation BIGINT NOT NULL,
  key          TEXT COLLATE "C" NOT NULL,
  run          TEXT COLLATE "C" NOT NULL,
  body         BYTEA NOT NULL,  -- canonical EDN of a message
  at           BIGINT NOT NULL,
  UNIQUE (conversation, key)
);

CREATE TABLE conversation_summaries (
  n            BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  conversation BIGINT NOT NULL,
  turns        BIGINT NOT NULL,
  basis        BYTEA NOT NULL,  -- BLAKE3-256 of the numbers of the spans
  said         BYTEA NOT NULL,
  at           BIGINT NOT NULL,
  UNIQUE (conversation, turns, basis)
);
