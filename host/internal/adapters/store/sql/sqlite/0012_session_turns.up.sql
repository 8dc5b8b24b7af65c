-- The turns of a session are the path of its conversation, and conversations that were
-- spawned are found by the one that they came from and by their run. The program moves
-- the rows of session_turns, which stays for repairs of older databases.

CREATE TABLE conversation_children (
  parent TEXT    NOT NULL,  -- id of the conversation that they were spawned from
  child  INTEGER NOT NULL,
  run    TEXT    NOT NULL,  -- whose agent asked for it; '': a caller made it
  PRIMARY KEY (parent, child)
) WITHOUT ROWID;
CREATE INDEX conversation_children_run ON conversation_children (run) WHERE run <> '';
