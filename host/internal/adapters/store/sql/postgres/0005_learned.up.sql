-- What learned dispatch has learned, per intent and bucket.

CREATE TABLE learned (
  intent TEXT COLLATE "C" NOT NULL,
  bucket TEXT COLLATE "C" NOT NULL,  -- '': the intent has one
  counts TEXT NOT NULL,              -- EDN map; absolute counts with their times
  PRIMARY KEY (intent, bucket)
) WITH (fillfactor = 50);
