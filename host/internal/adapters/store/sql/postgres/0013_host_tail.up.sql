-- The one row is the last record of the host, so that records missing at the end are found.
CREATE TABLE host_tail (
  chain BYTEA  NOT NULL,
  n     BIGINT NOT NULL
);
INSERT INTO host_tail
SELECT chain, n FROM (SELECT n, chain FROM host_records UNION ALL SELECT n, chain FROM host_head) AS ends ORDER BY n DESC LIMIT 1;
