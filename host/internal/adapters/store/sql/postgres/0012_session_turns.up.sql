-- The turns of a session are the path of its conversation, and conversations that were
-- spawned are found by the one that they came from and by their run. The program moves
-- the rows of session_turns.

CREATE TABLE conversation_children (
  parent TEXT COLLATE "C" NOT NULL,  -- id of the conversation that they were spawned from
  child  BIGINT NOT NULL,
  run    TEXT COLLATE "C" NOT NULL,  -- whose agent asked for it; '': a caller made it
  PRIMARY KEY (parent, child)
);
CREATE INDEX conversation_children_run ON conversation_children (run) WHERE run <> '';
