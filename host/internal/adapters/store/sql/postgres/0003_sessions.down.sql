DROP TABLE session_turns;
DROP TABLE session_vars;
DROP TABLE sessions;
