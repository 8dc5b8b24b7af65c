-- Tokens of sessions and of browsers.

ALTER TABLE tokens ADD COLUMN kind TEXT NOT NULL DEFAULT '';    -- '', session or browser
ALTER TABLE tokens ADD COLUMN session TEXT COLLATE "C" NOT NULL DEFAULT ''; -- id of the session of a token for one
ALTER TABLE tokens ADD COLUMN parent TEXT COLLATE "C" NOT NULL DEFAULT '';  -- id of the token that made it
