-- Statements of the store, each under its name.

-- name: migrations_table
CREATE TABLE IF NOT EXISTS migrations (
  version INTEGER PRIMARY KEY,
  name    TEXT    NOT NULL,
  sum     TEXT    NOT NULL,
  applied INTEGER NOT NULL
)
-- name: migrations
SELECT version, name, sum FROM migrations ORDER BY version
-- name: add_migration
INSERT INTO migrations (version, name, sum, applied) VALUES (?1, ?2, ?3, ?4)
-- name: remove_migration
DELETE FROM migrations WHERE version = ?1

-- name: begin
BEGIN IMMEDIATE
-- name: commit
COMMIT
-- name: rollback
ROLLBACK

-- name: last_run
SELECT max(coalesce((SELECT max(n) FROM runs), 0), coalesce((SELECT max(id) >> 32 FROM records), 0))
-- name: last_content
SELECT coalesce(max(n), 0) FROM content

-- name: run
SELECT n, id, state, epoch, records, chain, bytes, accepted, finished, latency, intent, principal, cost, error,
  key, imported, pinned, purged, removed
FROM runs WHERE id = ?1
-- name: run_by_number
SELECT n, id, state, epoch, records, chain, bytes, accepted, finished, latency, intent, principal, cost, error,
  key, imported, pinned, purged, removed
FROM runs WHERE n = ?1
-- name: run_numbers
SELECT n FROM runs UNION SELECT id >> 32 FROM records ORDER BY 1
-- name: unnamed_runs
SELECT DISTINCT id >> 32 FROM records WHERE id >> 32 NOT IN (SELECT n FROM runs)
-- name: count_runs
SELECT count(*) FROM runs
-- name: runs_like
SELECT r.id FROM runs r WHERE r.id >= ?1 AND r.id < ?2
  AND (?4 = '' OR r.principal = ?4)
  AND (?5 = '' OR EXISTS (SELECT 1 FROM run_tenants t WHERE t.run = r.n AND t.tenant = ?5))
  AND (?6 = '' OR EXISTS (SELECT 1 FROM run_sessions t WHERE t.run = r.n AND t.session = ?6))
  AND (?7 = 0 OR r.imported = 0)
ORDER BY r.n DESC LIMIT ?3
-- name: runs_open
SELECT n, id, state, epoch, records, chain, bytes, accepted, finished, latency, intent, principal, cost, error,
  key, imported, pinned, purged, removed
FROM runs WHERE state = 'open' ORDER BY n
-- name: runs_suspended
SELECT n, id, state, epoch, records, chain, bytes, accepted, finished, latency, intent, principal, cost, error,
  key, imported, pinned, purged, removed
FROM runs WHERE state = 'suspended' ORDER BY n
-- name: runs
SELECT n, id, state, epoch, records, chain, bytes, accepted, finished, latency, intent, principal, cost, error,
  key, imported, pinned, purged, removed
FROM runs
WHERE (?1 = '' OR state = ?1) AND (?2 = '' OR intent = ?2) AND (?3 = '' OR principal = ?3)
  AND accepted >= ?4 AND (?5 = 0 OR accepted < ?5)
  AND (?6 = '' OR n < (SELECT n FROM runs WHERE id = ?6)) AND (?7 = '' OR key = ?7)
  AND (?9 = 0 OR state IN ('open', 'suspended') OR finished >= ?9)
  AND (?10 = 0 OR imported = 0)
ORDER BY n DESC LIMIT ?8
-- name: runs_of_tenant
SELECT n, id, state, epoch, records, chain, bytes, accepted, finished, latency, intent, principal, cost, error,
  key, imported, pinned, purged, removed
FROM runs
WHERE (?1 = '' OR state = ?1) AND (?2 = '' OR intent = ?2) AND (?3 = '' OR principal = ?3)
  AND accepted >= ?4 AND (?5 = 0 OR accepted < ?5)
  AND (?6 = '' OR n < (SELECT n FROM runs WHERE id = ?6)) AND (?7 = '' OR key = ?7)
  AND (?9 = 0 OR state IN ('open', 'suspended') OR finished >= ?9)
  AND (?10 = 0 OR imported = 0)
  AND n IN (SELECT run FROM run_tenants WHERE tenant = ?11)
ORDER BY n DESC LIMIT ?8
-- name: runs_of_session
SELECT n, id, state, epoch, records, chain, bytes, accepted, finished, latency, intent, principal, cost, error,
  key, imported, pinned, purged, removed
FROM runs
WHERE (?1 = '' OR state = ?1) AND (?2 = '' OR intent = ?2) AND (?3 = '' OR principal = ?3)
  AND accepted >= ?4 AND (?5 = 0 OR accepted < ?5)
  AND (?6 = '' OR n < (SELECT n FROM runs WHERE id = ?6)) AND (?7 = '' OR key = ?7)
  AND (?9 = 0 OR state IN ('open', 'suspended') OR finished >= ?9)
  AND (?10 = 0 OR imported = 0)
  AND (?12 = '' OR n IN (SELECT run FROM run_tenants WHERE tenant = ?12))
  AND n IN (SELECT run FROM run_sessions WHERE session = ?11)
ORDER BY n DESC LIMIT ?8
-- name: add_run
INSERT INTO runs (n, id, state, epoch, records, chain, bytes, accepted, finished, latency, intent, principal, cost, error,
  key, imported, pinned, purged, removed)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)
-- name: add_run_session
INSERT INTO run_sessions (session, run) VALUES (?1, ?2)
-- name: add_run_tenant
INSERT INTO run_tenants (tenant, run) VALUES (?1, ?2)
-- name: run_in_reach
SELECT n FROM runs WHERE id = ?1 AND imported = 0 AND (?2 = '' OR principal = ?2)
  AND (?3 = '' OR n IN (SELECT run FROM run_tenants WHERE tenant = ?3))
  AND (?4 = '' OR n IN (SELECT run FROM run_sessions WHERE session = ?4))
-- name: set_run
UPDATE runs SET epoch = ?2, records = ?3, chain = ?4, bytes = ?5 WHERE n = ?1
-- name: finish_run
UPDATE runs SET epoch = ?2, records = ?3, chain = ?4, bytes = ?5, state = ?6, finished = ?7, latency = ?8, cost = ?9,
  error = ?10
WHERE n = ?1
-- name: pin
UPDATE runs SET pinned = ?2 WHERE n = ?1
-- name: mark_purged
UPDATE runs SET purged = ?2, bytes = (
  SELECT coalesce(sum(length(body) + 32), 0) FROM records WHERE id > (?1 << 32) AND id < ((?1 + 1) << 32)
) WHERE n = ?1
-- name: mark_removed
UPDATE runs SET removed = ?2, bytes = 0 WHERE n = ?1
-- name: position
SELECT count(*), count(*) FILTER (WHERE state = 'open'), count(*) FILTER (WHERE state = 'suspended'),
  CAST(coalesce(sum(records) FILTER (WHERE removed = 0), 0) AS bigint), CAST(coalesce(sum(bytes), 0) AS bigint),
  coalesce((SELECT id FROM runs ORDER BY n DESC LIMIT 1), '')
FROM runs
-- name: schema_version
SELECT coalesce(max(version), 0) FROM migrations
-- name: total_bytes
SELECT coalesce(sum(bytes), 0) FROM runs
-- name: removable
SELECT n, id, state, epoch, records, chain, bytes, accepted, finished, latency, intent, principal, cost, error,
  key, imported, pinned, purged, removed
FROM runs WHERE state NOT IN ('open', 'suspended') AND pinned = 0 AND removed = 0 AND n > ?1 ORDER BY n LIMIT 200

-- name: add_record
INSERT INTO records (id, chain, body) VALUES ((?1 << 32) | ?2, ?3, ?4)
-- name: records
SELECT id & 4294967295, chain, body FROM records
WHERE id > ((?1 << 32) | ?2) AND id < ((?1 + 1) << 32) ORDER BY id LIMIT ?3
-- name: remove_records
DELETE FROM records WHERE id > (?1 << 32) AND id < ((?1 + 1) << 32)

-- name: add_content
INSERT INTO content (n, hash, owner, form, size, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (hash) DO NOTHING
-- name: all_files
SELECT hash FROM content WHERE body IS NULL
-- name: find_content
SELECT n, owner FROM content WHERE hash = ?1
-- name: readable
SELECT c.n FROM content c WHERE c.hash = ?1 AND (
  EXISTS (SELECT 1 FROM runs r WHERE r.n = c.owner
    AND (?2 = '' OR r.principal = ?2)
    AND (?3 = '' OR EXISTS (SELECT 1 FROM run_tenants t WHERE t.run = r.n AND t.tenant = ?3))
    AND (?4 = '' OR EXISTS (SELECT 1 FROM run_sessions t WHERE t.run = r.n AND t.session = ?4))
    AND (?5 = 0 OR r.imported = 0))
  OR EXISTS (SELECT 1 FROM shared s CROSS JOIN runs r ON r.n = s.run WHERE s.content = c.n
    AND (?2 = '' OR r.principal = ?2)
    AND (?3 = '' OR EXISTS (SELECT 1 FROM run_tenants t WHERE t.run = r.n AND t.tenant = ?3))
    AND (?4 = '' OR EXISTS (SELECT 1 FROM run_sessions t WHERE t.run = r.n AND t.session = ?4))
    AND (?5 = 0 OR r.imported = 0)))
-- name: content
SELECT n, hash, owner, form, size, body FROM content WHERE n = ?1
-- name: content_by_hash
SELECT n, hash, owner, form, size, body FROM content WHERE hash = ?1
-- name: contents_near
SELECT n, hash, owner, form, size, body FROM content
WHERE n BETWEEN ?1 AND ?2 AND owner = ?3 AND size <= ?4 AND body IS NOT NULL
-- name: share
INSERT INTO shared (content, run) VALUES (?1, ?2) ON CONFLICT DO NOTHING
-- name: heir
SELECT run FROM shared WHERE content = ?1 AND run <> ?2 ORDER BY run LIMIT 1
-- name: unshare
DELETE FROM shared WHERE content = ?1 AND run = ?2
-- name: inherit
UPDATE content SET owner = ?2 WHERE n = ?1
-- name: remove_content
DELETE FROM content WHERE n = ?1

-- name: counters
SELECT scope, id, begun, used, granted, mark FROM counters
-- name: counter
SELECT scope, id, begun, used, granted, mark FROM counters WHERE scope = ?1 AND id = ?2 AND begun = ?3
-- name: set_counter
INSERT INTO counters (scope, id, begun, used, granted, mark) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (scope, id, begun) DO UPDATE SET used = excluded.used, granted = excluded.granted, mark = excluded.mark
-- name: remove_counters
DELETE FROM counters WHERE begun > 0 AND begun < ?1
-- name: counters_table
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'counters'

-- name: learned
SELECT counts FROM learned WHERE intent = ?1 AND bucket = ?2
-- name: all_learned
SELECT intent, bucket, counts FROM learned
-- name: set_learned
INSERT INTO learned (intent, bucket, counts) VALUES (?1, ?2, ?3)
ON CONFLICT (intent, bucket) DO UPDATE SET counts = excluded.counts
-- name: learned_table
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'learned'

-- name: session
SELECT n, id, owner, version, frozen, created, updated, accessed, frozen_at, thawed_at, notes FROM sessions WHERE id = ?1
-- name: sessions
SELECT n, id, owner, version, frozen, created, updated, accessed, frozen_at, thawed_at, notes FROM sessions
WHERE id > ?1 ORDER BY id LIMIT ?2
-- name: sessions_of
SELECT n, id, owner, version, frozen, created, updated, accessed, frozen_at, thawed_at, notes FROM sessions
WHERE id > ?1 AND owner = ?3 ORDER BY id LIMIT ?2
-- name: hot_sessions_bare
SELECT n, id, owner, version, frozen, created, updated, accessed, frozen_at, thawed_at, '{}' FROM sessions
WHERE frozen = 0
-- name: hot_sessions
SELECT n, id, owner, version, frozen, created, updated, accessed, frozen_at, thawed_at, notes FROM sessions
WHERE frozen = 0
-- name: set_session
INSERT INTO sessions (id, owner, version, frozen, created, updated, accessed, frozen_at, thawed_at, notes)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
ON CONFLICT (id) DO UPDATE SET version = excluded.version, frozen = excluded.frozen, updated = excluded.updated,
  accessed = excluded.accessed, frozen_at = excluded.frozen_at, thawed_at = excluded.thawed_at, notes = excluded.notes
RETURNING n
-- name: count_sessions
SELECT count(*) FROM sessions
-- name: touch_session
UPDATE sessions SET accessed = ?2 WHERE id = ?1 AND accessed < ?2
-- name: remove_session
DELETE FROM sessions WHERE n = ?1
-- name: session_var
SELECT key, expires, value FROM session_vars WHERE session = (SELECT n FROM sessions WHERE id = ?1) AND key = ?2
-- name: session_vars
SELECT key, expires, value FROM session_vars WHERE session = (SELECT n FROM sessions WHERE id = ?1) ORDER BY key
-- name: session_keys
SELECT key, expires FROM session_vars WHERE session = ?1
-- name: set_session_var
INSERT INTO session_vars (session, key, expires, value) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (session, key) DO UPDATE SET expires = excluded.expires, value = excluded.value
-- name: remove_session_var
DELETE FROM session_vars WHERE session = ?1 AND key = ?2
-- name: remove_session_vars
DELETE FROM session_vars WHERE session = ?1
-- name: remove_expired_vars
DELETE FROM session_vars WHERE expires > 0 AND expires <= ?1
-- name: session_turns
SELECT s.n, s.role, s.at, c.body, m.origin FROM conversation_path p JOIN conversation_spans s ON s.n = p.span
JOIN conversation_messages m ON m.span = p.span JOIN conversation_content c ON c.n = m.content
WHERE p.conversation = ?1 AND p.ended = 9223372036854775807 AND p.position >= ?2 AND p.position < ?3
ORDER BY p.position, m.position
-- name: session_turns_of_run
SELECT c.n, p.span FROM conversations c JOIN conversation_path p ON p.conversation = c.n
JOIN conversation_messages m ON m.span = p.span AND m.position = 0
WHERE c.id >= 'session/' AND c.id < 'session0' AND m.origin = ?1
-- name: probe_sessions
SELECT (SELECT count(*) FROM (SELECT n FROM sessions NOT INDEXED ORDER BY n LIMIT 1))
  + (SELECT count(*) FROM (SELECT n FROM sessions NOT INDEXED ORDER BY n DESC LIMIT 1))
  + (SELECT count(*) FROM (SELECT id FROM sessions INDEXED BY sqlite_autoindex_sessions_1 ORDER BY id LIMIT 1))
  + (SELECT count(*) FROM (SELECT id FROM sessions INDEXED BY sqlite_autoindex_sessions_1 ORDER BY id DESC LIMIT 1))
  + (SELECT count(*) FROM (SELECT owner FROM sessions INDEXED BY sessions_owner ORDER BY owner LIMIT 1))
-- name: probe_session_vars
SELECT (SELECT count(*) FROM (SELECT n FROM session_vars NOT INDEXED ORDER BY n LIMIT 1))
  + (SELECT count(*) FROM (SELECT n FROM session_vars NOT INDEXED ORDER BY n DESC LIMIT 1))
  + (SELECT count(*) FROM (SELECT session FROM session_vars INDEXED BY sqlite_autoindex_session_vars_1 ORDER BY session LIMIT 1))
  + (SELECT count(*) FROM (SELECT session FROM session_vars INDEXED BY sqlite_autoindex_session_vars_1 ORDER BY session DESC LIMIT 1))
  + (SELECT count(*) FROM (SELECT expires FROM session_vars INDEXED BY session_vars_expires WHERE expires > 0 ORDER BY expires LIMIT 1))
-- name: probe_session_turns
SELECT (SELECT count(*) FROM (SELECT n FROM session_turns NOT INDEXED ORDER BY n LIMIT 1))
  + (SELECT count(*) FROM (SELECT n FROM session_turns NOT INDEXED ORDER BY n DESC LIMIT 1))
  + (SELECT count(*) FROM (SELECT session FROM session_turns INDEXED BY session_turns_session ORDER BY session LIMIT 1))
  + (SELECT count(*) FROM (SELECT session FROM session_turns INDEXED BY session_turns_session ORDER BY session DESC LIMIT 1))
-- name: count_sessions
SELECT count(*) FROM sessions
-- name: count_session_vars
SELECT count(*) FROM session_vars
-- name: count_session_turns
SELECT count(*) FROM session_turns
-- name: walk_sessions
SELECT count(*) FROM sessions NOT INDEXED
-- name: walk_session_vars
SELECT count(*) FROM session_vars NOT INDEXED
-- name: walk_session_turns
SELECT count(*) FROM session_turns NOT INDEXED
-- name: sessions_table
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'sessions'
-- name: all_sessions
SELECT * FROM sessions
-- name: all_session_vars
SELECT * FROM session_vars
-- name: all_session_turns
SELECT * FROM session_turns

-- name: conversation
SELECT n, id, owner, session, version, turns, archived, created, updated, about FROM conversations WHERE id = ?1
-- name: conversation_id
SELECT id FROM conversations WHERE n = ?1
-- name: conversations
SELECT n, id, owner, session, version, turns, archived, created, updated, about FROM conversations
WHERE id > ?1 AND archived <= ?2 AND (?4 = '' OR session = ?4) ORDER BY id LIMIT ?3
-- name: conversations_of
SELECT n, id, owner, session, version, turns, archived, created, updated, about FROM conversations
WHERE id > ?1 AND archived <= ?2 AND (?4 = '' OR session = ?4) AND owner = ?5
ORDER BY id LIMIT ?3
-- name: add_conversation
INSERT INTO conversations (id, owner, session, version, turns, archived, created, updated, about)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) RETURNING n
-- name: set_conversation
UPDATE conversations SET version = ?2, turns = ?3, archived = ?4, updated = ?5, about = ?6 WHERE n = ?1
-- name: remove_conversation
DELETE FROM conversations WHERE n = ?1
-- name: remove_conversation_path
DELETE FROM conversation_path WHERE conversation = ?1
-- name: remove_conversation_commits
DELETE FROM conversation_commits WHERE conversation = ?1
-- name: remove_conversation_drafts
DELETE FROM conversation_drafts WHERE conversation = ?1
-- name: remove_conversation_summaries
DELETE FROM conversation_summaries WHERE conversation = ?1
-- name: conversation_children
SELECT c.id FROM conversation_children k JOIN conversations c ON c.n = k.child WHERE k.parent = ?1 ORDER BY c.n
-- name: conversation_children_of_run
SELECT c.id FROM conversation_children k JOIN conversations c ON c.n = k.child
WHERE k.run = ?1 AND k.run <> '' AND c.archived >= ?2 ORDER BY c.n
-- name: add_conversation_child
INSERT INTO conversation_children (parent, child, run) VALUES (?1, ?2, ?3)
-- name: remove_conversation_child
DELETE FROM conversation_children WHERE parent = ?1 AND child = ?2
-- name: remove_conversation_as_child
DELETE FROM conversation_children WHERE child = ?1
-- name: conversation_steps
SELECT n, position, since, ended, span FROM conversation_path WHERE conversation = ?1 ORDER BY n
-- name: move_conversation_step
UPDATE conversation_path SET position = ?2 WHERE n = ?1
-- name: remove_conversation_step
DELETE FROM conversation_path WHERE n = ?1
-- name: set_conversation_turns
UPDATE conversations SET turns = ?2 WHERE n = ?1
-- name: conversation_path
SELECT p.turn, p.span, s.role, p.stale FROM conversation_path p JOIN conversation_spans s ON s.n = p.span
WHERE p.conversation = ?1 AND p.ended > ?2 AND p.since <= ?2 ORDER BY p.position
-- name: end_conversation_path
UPDATE conversation_path SET ended = ?3
WHERE conversation = ?1 AND ended = 9223372036854775807 AND position >= ?2
-- name: add_conversation_step
INSERT INTO conversation_path (conversation, position, since, ended, turn, span, stale)
VALUES (?1, ?2, ?3, 9223372036854775807, ?4, ?5, ?6)
-- name: copy_conversation_path
INSERT INTO conversation_path (conversation, position, since, ended, turn, span, stale)
SELECT ?1, position, 1, ended, turn, span, stale FROM conversation_path
WHERE conversation = ?2 AND ended = 9223372036854775807 AND position < ?3 ORDER BY position
-- name: add_conversation_span
INSERT INTO conversation_spans (turn, role, at) VALUES (?1, ?2, ?3) RETURNING n
-- name: conversation_spans
SELECT DISTINCT span FROM conversation_path WHERE conversation = ?1 AND turn = ?2 ORDER BY span
-- name: add_conversation_content
INSERT INTO conversation_content (hash, size, body) VALUES (?1, ?2, ?3) ON CONFLICT (hash) DO NOTHING
-- name: add_conversation_message
INSERT INTO conversation_messages (span, position, content, origin)
VALUES (?1, ?2, (SELECT n FROM conversation_content WHERE hash = ?3), ?4)
-- name: conversation_messages
SELECT p.position, p.span, c.body, m.origin FROM conversation_path p
JOIN conversation_messages m ON m.span = p.span JOIN conversation_content c ON c.n = m.content
WHERE p.conversation = ?1 AND p.ended > ?2 AND p.since <= ?2 AND p.position >= ?3 ORDER BY p.position, m.position
-- name: conversation_span
SELECT c.body, m.origin FROM conversation_messages m JOIN conversation_content c ON c.n = m.content
WHERE m.span = ?1 ORDER BY m.position
-- name: conversation_commit
SELECT version, kind, key, at FROM conversation_commits WHERE conversation = ?1 AND key = ?2 AND key <> ''
-- name: conversation_commits
SELECT version, kind, key, at FROM conversation_commits WHERE conversation = ?1 ORDER BY version DESC LIMIT ?2
-- name: add_conversation_commit
INSERT INTO conversation_commits (conversation, version, kind, key, at) VALUES (?1, ?2, ?3, ?4, ?5)
-- name: conversation_drafts
SELECT key, run, body, at FROM conversation_drafts WHERE conversation = ?1 ORDER BY n
-- name: set_conversation_draft
INSERT INTO conversation_drafts (conversation, key, run, body, at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (conversation, key) DO UPDATE SET run = excluded.run, body = excluded.body, at = excluded.at
-- name: remove_conversation_draft
DELETE FROM conversation_drafts WHERE conversation = ?1 AND key = ?2
-- name: conversation_summaries
SELECT turns, basis, said, at FROM conversation_summaries WHERE conversation = ?1 ORDER BY n
-- name: set_conversation_summary
INSERT INTO conversation_summaries (conversation, turns, basis, said, at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (conversation, turns, basis) DO UPDATE SET said = excluded.said, at = excluded.at
-- name: sweep_conversation_spans
DELETE FROM conversation_spans WHERE n NOT IN (SELECT span FROM conversation_path)
-- name: sweep_conversation_messages
DELETE FROM conversation_messages WHERE span NOT IN (SELECT n FROM conversation_spans)
-- name: sweep_conversation_content
DELETE FROM conversation_content WHERE n NOT IN (SELECT content FROM conversation_messages)

-- name: count_conversation_content
SELECT count(*) FROM conversation_content
-- name: walk_conversation_content
SELECT count(*) FROM conversation_content NOT INDEXED
-- name: all_conversation_content
SELECT * FROM conversation_content
-- name: salvage_conversation_content
INSERT OR IGNORE INTO conversation_content VALUES (?1, ?2, ?3, ?4)
-- name: count_conversation_spans
SELECT count(*) FROM conversation_spans
-- name: walk_conversation_spans
SELECT count(*) FROM conversation_spans NOT INDEXED
-- name: all_conversation_spans
SELECT * FROM conversation_spans
-- name: salvage_conversation_spans
INSERT OR IGNORE INTO conversation_spans VALUES (?1, ?2, ?3, ?4)
-- name: count_conversation_messages
SELECT count(*) FROM conversation_messages
-- name: walk_conversation_messages
SELECT count(*) FROM conversation_messages NOT INDEXED
-- name: all_conversation_messages
SELECT * FROM conversation_messages ORDER BY span, position
-- name: salvage_conversation_messages
INSERT OR IGNORE INTO conversation_messages VALUES (?1, ?2, ?3, ?4, ?5)
-- name: count_conversations
SELECT count(*) FROM conversations
-- name: walk_conversations
SELECT count(*) FROM conversations NOT INDEXED
-- name: all_conversations
SELECT * FROM conversations
-- name: salvage_conversations
INSERT OR IGNORE INTO conversations VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
-- name: count_conversation_path
SELECT count(*) FROM conversation_path
-- name: walk_conversation_path
SELECT count(*) FROM conversation_path NOT INDEXED
-- name: all_conversation_path
SELECT * FROM conversation_path
-- name: salvage_conversation_path
INSERT OR IGNORE INTO conversation_path VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
-- name: count_conversation_commits
SELECT count(*) FROM conversation_commits
-- name: walk_conversation_commits
SELECT count(*) FROM conversation_commits NOT INDEXED
-- name: all_conversation_commits
SELECT * FROM conversation_commits
-- name: salvage_conversation_commits
INSERT OR IGNORE INTO conversation_commits VALUES (?1, ?2, ?3, ?4, ?5, ?6)
-- name: count_conversation_drafts
SELECT count(*) FROM conversation_drafts
-- name: walk_conversation_drafts
SELECT count(*) FROM conversation_drafts NOT INDEXED
-- name: all_conversation_drafts
SELECT * FROM conversation_drafts
-- name: salvage_conversation_drafts
INSERT OR IGNORE INTO conversation_drafts VALUES (?1, ?2, ?3, ?4, ?5, ?6)
-- name: conversations_table
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'conversations'
-- name: all_last_turns
SELECT s.id, coalesce((
  SELECT max(p.span) FROM conversation_path p JOIN conversations c ON c.n = p.conversation WHERE c.id = 'session/' || s.id
), 0) FROM sessions s
-- name: all_conversations_without_session
SELECT n, id FROM conversations
WHERE id >= 'session/' AND id < 'session0' AND substr(id, 9) NOT IN (SELECT id FROM sessions)
-- name: free_conversation
UPDATE conversations SET id = ?2, session = '' WHERE n = ?1
-- name: all_descriptions
SELECT n, id, about FROM conversations ORDER BY n
-- name: free_child
UPDATE conversations SET about = ?2 WHERE n = ?1
-- name: cut_conversation_paths
DELETE FROM conversation_path AS p WHERE ended = 9223372036854775807 AND position > (
  SELECT count(*) FROM conversation_path q
  WHERE q.conversation = p.conversation AND q.ended = 9223372036854775807 AND q.position < p.position
)
-- name: recount_conversations
UPDATE conversations SET turns = (
  SELECT count(*) FROM conversation_path p WHERE p.conversation = conversations.n AND p.ended = 9223372036854775807
)

-- name: salvage_runs
INSERT OR IGNORE INTO runs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)
-- name: salvage_records
INSERT OR IGNORE INTO records VALUES (?1, ?2, ?3)
-- name: salvage_content
INSERT OR IGNORE INTO content VALUES (?1, ?2, ?3, ?4, ?5, ?6)
-- name: salvage_counters
INSERT OR IGNORE INTO counters VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)

-- name: salvage_learned
INSERT OR IGNORE INTO learned VALUES (?1, ?2, ?3, ?4)
-- name: salvage_action_keys
INSERT OR IGNORE INTO action_keys VALUES (?1, ?2, ?3, ?4, ?5, ?6)
-- name: salvage_sessions
INSERT OR IGNORE INTO sessions VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
-- name: salvage_session_vars
INSERT OR IGNORE INTO session_vars VALUES (?1, ?2, ?3, ?4, ?5)
-- name: salvage_session_turns
INSERT OR IGNORE INTO session_turns VALUES (?1, ?2, ?3, ?4, ?5, ?6)

-- name: run_by_key
SELECT id FROM runs WHERE key = ?1 AND key <> '' AND imported = 0 AND removed = 0

-- name: accounts_version
SELECT version FROM identity WHERE n = 1
-- name: grow_accounts
UPDATE identity SET version = version + 1 WHERE n = 1
-- name: users
SELECT id, login, type, roles, password, locked, created, changed, tenant FROM users ORDER BY id
-- name: set_user
INSERT INTO users (id, login, type, roles, password, locked, created, changed, tenant)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (id) DO UPDATE SET login = excluded.login, type = excluded.type, roles = excluded.roles,
  password = excluded.password, locked = excluded.locked, changed = excluded.changed, tenant = excluded.tenant
-- name: remove_user
DELETE FROM users WHERE id = ?1
-- name: tokens
SELECT id, owner, label, hash, narrow, created, expires, kind, session, parent FROM tokens ORDER BY id
-- name: set_token
INSERT INTO tokens (id, owner, label, hash, narrow, created, expires, kind, session, parent)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
ON CONFLICT (id) DO UPDATE SET expires = excluded.expires
-- name: created_roles
SELECT name, doc, includes, created FROM roles ORDER BY name
-- name: add_role
INSERT INTO roles (name, doc, includes, created) VALUES (?1, ?2, ?3, ?4)
-- name: remove_role
DELETE FROM roles WHERE name = ?1
-- name: remove_token
DELETE FROM tokens WHERE id = ?1
-- name: identity_table
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'identity'
-- name: identity_columns
SELECT (SELECT count(*) FROM pragma_table_info('tokens') WHERE name = 'parent'),
  (SELECT count(*) FROM pragma_table_info('users') WHERE name = 'tenant')
-- name: users_without_tenants
SELECT id, login, type, roles, password, locked, created, changed, '' FROM users ORDER BY id
-- name: tokens_without_kinds
SELECT id, owner, label, hash, narrow, created, expires, '', '', '' FROM tokens ORDER BY id
-- name: set_accounts_version
UPDATE identity SET version = ?1 WHERE n = 1

-- name: answer
SELECT print, status, answer FROM action_keys WHERE key = ?1
-- name: begin_answer
INSERT INTO action_keys (key, print, status, answer, created) VALUES (?1, ?2, 0, '', ?3)
-- name: end_answer
UPDATE action_keys SET status = ?2, answer = ?3 WHERE key = ?1
-- name: forget_answer
DELETE FROM action_keys WHERE key = ?1
-- name: drop_answers
DELETE FROM action_keys WHERE created < ?1
-- name: answers_table
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'action_keys'
-- name: all_answers
SELECT key, print, status, answer, created FROM action_keys
-- name: salvage_answer
INSERT OR IGNORE INTO action_keys (key, print, status, answer, created) VALUES (?1, ?2, ?3, ?4, ?5)
-- name: add_host_record
INSERT INTO host_records (n, at, kind, event, chain, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
-- name: host_end
SELECT n, chain FROM host_tail
-- name: last_host_record
SELECT n, chain FROM (SELECT n, chain FROM host_records UNION ALL SELECT n, chain FROM host_head) ORDER BY n DESC LIMIT 1
-- name: add_host_tail
INSERT INTO host_tail (n, chain) VALUES (?1, ?2)
-- name: set_host_tail
UPDATE host_tail SET n = ?1, chain = ?2
-- name: host_head
SELECT n, chain FROM host_head
-- name: host_bounds
SELECT (SELECT n FROM host_head) + 1, coalesce((SELECT max(n) FROM host_records), (SELECT n FROM host_head))
-- name: host_records
SELECT n, chain, body FROM host_records WHERE n > ?1 ORDER BY n LIMIT ?2
-- name: host_events
SELECT n, chain, body FROM host_records WHERE n > ?1 AND event = 1 ORDER BY n LIMIT ?2
-- name: last_host_events
SELECT n, chain, body FROM host_records WHERE event = 1 ORDER BY n DESC LIMIT ?1
-- name: first_host_since
SELECT coalesce((SELECT n FROM host_records WHERE at >= ?1 ORDER BY n LIMIT 1),
  coalesce((SELECT max(n) FROM host_records), (SELECT n FROM host_head)) + 1)
-- name: set_host_head
UPDATE host_head SET n = ?1, chain = coalesce((SELECT chain FROM host_records WHERE n = ?1), chain)
-- name: remove_host_records
DELETE FROM host_records WHERE n < ?1
-- name: put_host_head
UPDATE host_head SET n = ?1, chain = ?2
-- name: host_table
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'host_records'
-- name: host_tail_table
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'host_tail'
-- name: salvage_host_tail
UPDATE host_tail SET chain = ?1, n = ?2 WHERE n < ?2
-- name: salvage_host_head
UPDATE host_head SET n = ?1, chain = ?2 WHERE n < ?1
-- name: salvage_host_records
INSERT OR IGNORE INTO host_records VALUES (?1, ?2, ?3, ?4, ?5, ?6)
