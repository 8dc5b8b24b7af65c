DROP TABLE tokens;
DROP TABLE users;
DROP TABLE identity;
