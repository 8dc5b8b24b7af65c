-- The one row is the last record of the host, so that records missing at the end are found.
-- A repair tells its rows from those of host_head by the order of the columns.
CREATE TABLE host_tail (
  chain BLOB    NOT NULL,
  n     INTEGER NOT NULL
);
INSERT INTO host_tail
SELECT chain, n FROM (SELECT n, chain FROM host_records UNION ALL SELECT n, chain FROM host_head) ORDER BY n DESC LIMIT 1;
