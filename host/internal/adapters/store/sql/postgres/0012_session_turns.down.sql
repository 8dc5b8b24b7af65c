DROP TABLE conversation_children;
