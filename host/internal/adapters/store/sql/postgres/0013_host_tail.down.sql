DROP TABLE host_tail;
