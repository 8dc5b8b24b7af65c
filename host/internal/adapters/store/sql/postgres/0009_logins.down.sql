DELETE FROM tokens WHERE kind <> '';
ALTER TABLE tokens DROP COLUMN parent;
ALTER TABLE tokens DROP COLUMN session;
ALTER TABLE tokens DROP COLUMN kind;
UPDATE identity SET version = version + 1 WHERE n = 1;
