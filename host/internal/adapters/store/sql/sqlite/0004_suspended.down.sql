DROP INDEX runs_suspended;
