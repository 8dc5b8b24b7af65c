-- What tenants and users have spent and what operators have granted, per window.
-- Used is the sum of budget/settled over all runs, also over removed ones.

CREATE TABLE counters (
  scope   TEXT   COLLATE "C" NOT NULL,  -- tenant or user
  id      TEXT   COLLATE "C" NOT NULL,
  begun   BIGINT NOT NULL,              -- start of the window; 0: it has none
  used    TEXT   NOT NULL,              -- EDN map from dimension to amount
  granted TEXT   NOT NULL,
  mark    TEXT   NOT NULL,              -- accuracy of used
  PRIMARY KEY (scope, id, begun)
) WITH (fillfactor = 50);

-- What each host has reserved in a window and not settled.
CREATE TABLE reserved (
  host   BIGINT NOT NULL REFERENCES hosts (n),
  scope  TEXT   COLLATE "C" NOT NULL,
  id     TEXT   COLLATE "C" NOT NULL,
  begun  BIGINT NOT NULL,
  amount TEXT   NOT NULL,               -- EDN map from dimension to amount
  PRIMARY KEY (scope, id, begun, host)
) WITH (fillfactor = 50);
