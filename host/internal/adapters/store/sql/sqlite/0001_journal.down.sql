DROP TABLE shared;
DROP TABLE content;
DROP TABLE records;
DROP TABLE runs;
