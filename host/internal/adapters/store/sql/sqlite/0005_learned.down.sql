DROP TABLE learned;
