-- The session of each run that has one. Runs that were recorded before have no row.

CREATE TABLE run_sessions (
  session TEXT   NOT NULL,
  run     BIGINT NOT NULL,
  PRIMARY KEY (session, run)
);
