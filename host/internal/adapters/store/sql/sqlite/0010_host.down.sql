DROP TABLE host_records;
DROP TABLE host_head;
