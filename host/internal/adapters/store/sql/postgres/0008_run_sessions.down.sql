DROP TABLE run_sessions;
