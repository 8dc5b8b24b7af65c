DROP TABLE host_records;
DROP TABLE host_head;
DROP FUNCTION host_records_delete;
