-- What tenants and users have spent and what operators have granted, per window.
-- Used is the sum of budget/settled over all runs, also over removed ones.

CREATE TABLE counters (
  n       INTEGER PRIMARY KEY,
  scope   TEXT    NOT NULL,  -- tenant or user
  id      TEXT    NOT NULL,
  begun   INTEGER NOT NULL,  -- start of the window; 0: it has none
  used    TEXT    NOT NULL,  -- EDN map from dimension to amount
  granted TEXT    NOT NULL,
  mark    TEXT    NOT NULL,  -- accuracy of used
  UNIQUE (scope, id, begun)
);
