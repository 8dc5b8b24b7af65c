-- Suspended runs, which every start looks at, are few among all runs.

CREATE INDEX runs_suspended ON runs (n) WHERE state = 'suspended';
