DROP TABLE reserved;
DROP TABLE counters;
