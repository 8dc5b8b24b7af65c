-- What learned dispatch has learned, per intent and bucket. The columns differ in
-- number from those of every other table, by which a repair knows its rows.

CREATE TABLE learned (
  n      INTEGER PRIMARY KEY,
  intent TEXT    NOT NULL,
  bucket TEXT    NOT NULL,  -- '': the intent has one
  counts TEXT    NOT NULL,  -- EDN map; absolute counts with their times
  UNIQUE (intent, bucket)
);
