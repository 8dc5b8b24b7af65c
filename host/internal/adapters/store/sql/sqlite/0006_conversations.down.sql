DROP TABLE conversation_summaries;
DROP TABLE conversation_drafts;
DROP TABLE conversation_commits;
DROP TABLE conversation_content;
DROP TABLE conversation_messages;
DROP TABLE conversation_spans;
DROP TABLE conversation_path;
DROP TABLE conversations;
