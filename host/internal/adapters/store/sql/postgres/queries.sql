-- Statements of the store, each under its name.

-- name: migrations_table
CREATE TABLE IF NOT EXISTS migrations (
  version BIGINT PRIMARY KEY,
  name    TEXT   NOT NULL,
  sum     TEXT   NOT NULL,
  applied BIGINT NOT NULL
)
-- name: migrations
SELECT version, name, sum FROM migrations ORDER BY version
-- name: add_migration
INSERT INTO migrations (version, name, sum, applied) VALUES ($1, $2, $3, $4)
-- name: remove_migration
DELETE FROM migrations WHERE version = $1

-- name: begin
BEGIN; SELECT FROM head FOR UPDATE
-- name: enter
UPDATE hosts SET until = clock_timestamp() + $3 * interval '1 millisecond', commits = commits + 1
WHERE n = $1 AND boot = $2
RETURNING commits, taken, dropped, (SELECT erased FROM head), (SELECT coalesce(max(n), 0) FROM runs),
  (SELECT coalesce(max(n), 0) FROM content)
-- name: commit
COMMIT
-- name: rollback
ROLLBACK
-- name: register
INSERT INTO hosts (id, boot, until) VALUES ($1, $2, clock_timestamp() + $3 * interval '1 millisecond')
ON CONFLICT (id) DO UPDATE SET boot = excluded.boot, until = excluded.until
RETURNING n, commits, taken

-- name: leave
UPDATE hosts SET until = clock_timestamp(), boot = '' WHERE n = $1 AND boot = $2

-- name: last_run
SELECT greatest(coalesce((SELECT max(n) FROM runs), 0), coalesce((SELECT max(run) FROM records), 0))
-- name: last_content
SELECT coalesce(max(n), 0) FROM content

-- name: run
SELECT n, id, state, epoch, records, chain, bytes, accepted, finished, latency, intent, principal, cost, error,
  key, imported, pinned, purged, removed
FROM runs WHERE id = $1
-- name: run_by_number
SELECT n, id, state, epoch, records, chain, bytes, accepted, finished, latency, intent, principal, cost, error,
  key, imported, pinned, purged, removed
FROM runs WHERE n = $1
-- name: unnamed_runs
SELECT DISTINCT run FROM records WHERE NOT EXISTS (SELECT FROM runs WHERE n = run)
-- name: runs_like
SELECT r.id FROM runs r WHERE r.id >= $1 AND r.id < $2
  AND ($4::text = '' OR r.principal = $4)
  AND ($5::text = '' OR EXISTS (SELECT 1 FROM run_tenants t WHERE t.run = r.n AND t.tenant = $5))
  AND ($6::text = '' OR EXISTS (SELECT 1 FROM run_sessions t WHERE t.run = r.n AND t.session = $6))
  AND ($7::bigint = 0 OR r.imported = false)
ORDER BY r.n DESC LIMIT $3
-- name: runs_open
SELECT n, id, state, epoch, records, chain, bytes, accepted, finished, latency, intent, principal, cost, error,
  key, imported, pinned, purged, removed
FROM runs WHERE state = 'open' ORDER BY n
-- name: runs_suspended
SELECT n, id, state, epoch, records, chain, bytes, accepted, finished, latency, intent, principal, cost, error,
  key, imported, pinned, purged, removed
FROM runs WHERE state = 'suspended' ORDER BY n
-- name: runs_of
SELECT n, id, state, epoch, records, chain, bytes, accepted, finished, latency, intent, principal, cost, error,
  key, imported, pinned, purged, removed
FROM runs WHERE state = 'open' AND host = $1 ORDER BY n
-- name: runs_held
SELECT n, id, state, epoch, records, chain, bytes, accepted, finished, latency, intent, principal, cost, error,
  key, imported, pinned, purged, removed
FROM runs WHERE state IN ('open', 'suspended') AND host = $1 ORDER BY n
-- name: host_of
SELECT hosts.n, hosts.id FROM runs JOIN hosts ON hosts.n = runs.host WHERE runs.n = $1
-- name: runs
SELECT n, id, state, epoch, records, chain, bytes, accepted, finished, latency, intent, principal, cost, error,
  key, imported, pinned, purged, removed
FROM runs
WHERE ($1::text = '' OR state = $1) AND ($2::text = '' OR intent = $2) AND ($3::text = '' OR principal = $3)
  AND accepted >= $4 AND ($5::bigint = 0 OR accepted < $5)
  AND ($6::text = '' OR n < (SELECT n FROM runs WHERE id = $6)) AND ($7::text = '' OR key = $7)
  AND ($9::bigint = 0 OR state IN ('open', 'suspended') OR finished >= $9)
  AND ($10::bigint = 0 OR imported = false)
ORDER BY n DESC LIMIT $8
-- name: runs_of_tenant
SELECT n, id, state, epoch, records, chain, bytes, accepted, finished, latency, intent, principal, cost, error,
  key, imported, pinned, purged, removed
FROM runs
WHERE ($1::text = '' OR state = $1) AND ($2::text = '' OR intent = $2) AND ($3::text = '' OR principal = $3)
  AND accepted >= $4 AND ($5::bigint = 0 OR accepted < $5)
  AND ($6::text = '' OR n < (SELECT n FROM runs WHERE id = $6)) AND ($7::text = '' OR key = $7)
  AND ($9::bigint = 0 OR state IN ('open', 'suspended') OR finished >= $9)
  AND ($10::bigint = 0 OR imported = false)
  AND n IN (SELECT run FROM run_tenants WHERE tenant = $11)
ORDER BY n DESC LIMIT $8
-- name: runs_of_session
SELECT n, id, state, epoch, records, chain, bytes, accepted, finished, latency, intent, principal, cost, error,
  key, imported, pinned, purged, removed
FROM runs
WHERE ($1::text = '' OR state = $1) AND ($2::text = '' OR intent = $2) AND ($3::text = '' OR principal = $3)
  AND accepted >= $4 AND ($5::bigint = 0 OR accepted < $5)
  AND ($6::text = '' OR n < (SELECT n FROM runs WHERE id = $6)) AND ($7::text = '' OR key = $7)
  AND ($9::bigint = 0 OR state IN ('open', 'suspended') OR finished >= $9)
  AND ($10::bigint = 0 OR imported = false)
  AND ($12::text = '' OR n IN (SELECT run FROM run_tenants WHERE tenant = $12))
  AND n IN (SELECT run FROM run_sessions WHERE session = $11)
ORDER BY n DESC LIMIT $8
-- name: add_run
INSERT INTO runs (n, id, state, epoch, records, chain, bytes, accepted, finished, latency, intent, principal, cost, error,
  key, imported, pinned, purged, removed)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
-- name: add_run_session
INSERT INTO run_sessions (session, run) VALUES ($1, $2)
-- name: add_run_tenant
INSERT INTO run_tenants (tenant, run) VALUES ($1, $2)
-- name: run_in_reach
SELECT n FROM runs WHERE id = $1 AND NOT imported AND ($2::text = '' OR principal = $2)
  AND ($3::text = '' OR n IN (SELECT run FROM run_tenants WHERE tenant = $3))
  AND ($4::text = '' OR n IN (SELECT run FROM run_sessions WHERE session = $4))
-- name: set_run
UPDATE runs SET epoch = $2, records = $3, chain = $4, bytes = $5
WHERE n = $1 AND host = current_setting('ferment.host')::bigint
-- name: finish_run
UPDATE runs SET epoch = $2, records = $3, chain = $4, bytes = $5, state = $6, finished = $7, latency = $8, cost = $9,
  error = $10
WHERE n = $1 AND host = current_setting('ferment.host')::bigint
-- name: take_lapsed
WITH lapsed AS (
  SELECT n, boot FROM hosts WHERE until < now() AND n <> current_setting('ferment.host')::bigint
), got AS (
  UPDATE runs SET host = current_setting('ferment.host')::bigint FROM lapsed
  WHERE state IN ('open', 'suspended') AND host = lapsed.n RETURNING runs.n AS run, lapsed.n AS host, boot
), told AS (
  UPDATE hosts SET taken = taken + 1, dropped = dropped + 1 WHERE n IN (SELECT host FROM got)
)
SELECT run, boot = '' FROM got ORDER BY run
-- name: any_lapsed
SELECT EXISTS (
  SELECT FROM hosts JOIN runs ON host = hosts.n
  WHERE until < clock_timestamp() AND hosts.n <> $1 AND state IN ('open', 'suspended')
) OR EXISTS (SELECT FROM hosts JOIN reserved ON reserved.host = hosts.n WHERE until < clock_timestamp() AND hosts.n <> $1)
-- name: no_host
INSERT INTO hosts (id, boot, until) VALUES ('', '', '-infinity')
ON CONFLICT (id) DO UPDATE SET boot = '', until = '-infinity'
RETURNING n
-- name: give_run
UPDATE runs SET host = $2 WHERE n = $1 AND host = current_setting('ferment.host')::bigint AND state = 'open'
-- name: told_of_taken
UPDATE hosts SET taken = taken + 1 WHERE n = $1
-- name: take_run
WITH held AS (
  SELECT runs.n AS run, host FROM runs JOIN hosts ON hosts.n = host
  WHERE runs.n = $1 AND (state = 'suspended' OR until < now() OR host = current_setting('ferment.host')::bigint)
), told AS (
  UPDATE hosts SET taken = taken + 1
  WHERE n IN (SELECT host FROM held) AND n <> current_setting('ferment.host')::bigint
)
UPDATE runs SET host = current_setting('ferment.host')::bigint FROM held WHERE n = held.run RETURNING held.host
-- name: pin
UPDATE runs SET pinned = $2 WHERE n = $1
-- name: mark_purged
UPDATE runs SET purged = $2, bytes = (
  SELECT coalesce(sum(length(body) + 32), 0) FROM records WHERE run = $1
) WHERE n = $1
-- name: mark_removed
UPDATE runs SET removed = $2, bytes = 0 WHERE n = $1
-- name: position
SELECT count(*), count(*) FILTER (WHERE state = 'open'), count(*) FILTER (WHERE state = 'suspended'),
  CAST(coalesce(sum(records) FILTER (WHERE removed = 0), 0) AS bigint), CAST(coalesce(sum(bytes), 0) AS bigint),
  coalesce((SELECT id FROM runs ORDER BY n DESC LIMIT 1), '')
FROM runs
-- name: schema_version
SELECT coalesce(max(version), 0) FROM migrations
-- name: total_bytes
SELECT coalesce(sum(bytes), 0)::bigint FROM runs
-- name: removable
SELECT n, id, state, epoch, records, chain, bytes, accepted, finished, latency, intent, principal, cost, error,
  key, imported, pinned, purged, removed
FROM runs WHERE state NOT IN ('open', 'suspended') AND NOT pinned AND removed = 0 AND n > $1 ORDER BY n LIMIT 200

-- name: add_record
INSERT INTO records (run, seq, chain, body) VALUES ($1, $2, $3, $4)
-- name: records
SELECT seq, chain, body FROM records WHERE run = $1 AND seq > $2 ORDER BY seq LIMIT $3
-- name: remove_records
DELETE FROM records WHERE run = $1

-- name: add_content
INSERT INTO content (n, hash, owner, form, size, body) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (hash) DO NOTHING
-- name: find_content
SELECT n, owner FROM content WHERE hash = $1
-- name: readable
SELECT c.n FROM content c WHERE c.hash = $1 AND (
  EXISTS (SELECT 1 FROM runs r WHERE r.n = c.owner
    AND ($2::text = '' OR r.principal = $2)
    AND ($3::text = '' OR EXISTS (SELECT 1 FROM run_tenants t WHERE t.run = r.n AND t.tenant = $3))
    AND ($4::text = '' OR EXISTS (SELECT 1 FROM run_sessions t WHERE t.run = r.n AND t.session = $4))
    AND ($5::bigint = 0 OR r.imported = false))
  OR EXISTS (SELECT 1 FROM shared s JOIN runs r ON r.n = s.run WHERE s.content = c.n
    AND ($2::text = '' OR r.principal = $2)
    AND ($3::text = '' OR EXISTS (SELECT 1 FROM run_tenants t WHERE t.run = r.n AND t.tenant = $3))
    AND ($4::text = '' OR EXISTS (SELECT 1 FROM run_sessions t WHERE t.run = r.n AND t.session = $4))
    AND ($5::bigint = 0 OR r.imported = false)))
-- name: content
SELECT n, hash, owner, form, size, body FROM content WHERE n = $1
-- name: content_by_hash
SELECT n, hash, owner, form, size, body FROM content WHERE hash = $1
-- name: contents_near
SELECT n, hash, owner, form, size, body FROM content
WHERE n BETWEEN $1 AND $2 AND owner = $3 AND size <= $4 AND body IS NOT NULL
-- name: share
INSERT INTO shared (content, run) VALUES ($1, $2) ON CONFLICT DO NOTHING
-- name: heir
SELECT run FROM shared WHERE content = $1 AND run <> $2 ORDER BY run LIMIT 1
-- name: unshare
DELETE FROM shared WHERE content = $1 AND run = $2
-- name: inherit
UPDATE content SET owner = $2 WHERE n = $1
-- name: remove_content
DELETE FROM content WHERE n = $1

-- name: counters
SELECT scope, id, begun, used, granted, mark FROM counters
-- name: counter
SELECT scope, id, begun, used, granted, mark FROM counters WHERE scope = $1 AND id = $2 AND begun = $3
-- name: set_counter
INSERT INTO counters (scope, id, begun, used, granted, mark) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (scope, id, begun) DO UPDATE SET used = excluded.used, granted = excluded.granted, mark = excluded.mark
-- name: remove_counters
WITH old AS (DELETE FROM reserved WHERE begun > 0 AND begun < $1)
DELETE FROM counters WHERE begun > 0 AND begun < $1
-- name: counters_of
SELECT id FROM counters WHERE scope = $1 AND begun = $2
UNION SELECT id FROM reserved WHERE scope = $1 AND begun = $2 ORDER BY 1
-- name: reserved
SELECT host, amount FROM reserved WHERE scope = $1 AND id = $2 AND begun = $3
-- name: set_reserved
INSERT INTO reserved (host, scope, id, begun, amount) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (scope, id, begun, host) DO UPDATE SET amount = excluded.amount
-- name: remove_reserved
DELETE FROM reserved WHERE host = $1 AND scope = $2 AND id = $3 AND begun = $4
-- name: forget_reserved
DELETE FROM reserved WHERE host = $1
-- name: drop_reserved
WITH gone AS (
  DELETE FROM reserved USING hosts
  WHERE hosts.n = reserved.host AND until < now() AND hosts.n <> current_setting('ferment.host')::bigint
  RETURNING host
)
UPDATE hosts SET dropped = dropped + 1 WHERE n IN (SELECT host FROM gone)

-- name: learned
SELECT counts FROM learned WHERE intent = $1 AND bucket = $2
-- name: all_learned
SELECT intent, bucket, counts FROM learned
-- name: set_learned
INSERT INTO learned (intent, bucket, counts) VALUES ($1, $2, $3)
ON CONFLICT (intent, bucket) DO UPDATE SET counts = excluded.counts

-- name: session
SELECT n, id, owner, version, frozen, created, updated, accessed, frozen_at, thawed_at, notes FROM sessions WHERE id = $1
-- name: sessions
SELECT n, id, owner, version, frozen, created, updated, accessed, frozen_at, thawed_at, notes FROM sessions
WHERE id > $1 ORDER BY id LIMIT $2
-- name: sessions_of
SELECT n, id, owner, version, frozen, created, updated, accessed, frozen_at, thawed_at, notes FROM sessions
WHERE id > $1 AND owner = $3 ORDER BY id LIMIT $2
-- name: hot_sessions_bare
SELECT n, id, owner, version, frozen, created, updated, accessed, frozen_at, thawed_at, '{}' FROM sessions
WHERE frozen = 0
-- name: hot_sessions
SELECT n, id, owner, version, frozen, created, updated, accessed, frozen_at, thawed_at, notes FROM sessions
WHERE frozen = 0
-- name: set_session
INSERT INTO sessions (id, owner, version, frozen, created, updated, accessed, frozen_at, thawed_at, notes)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (id) DO UPDATE SET version = excluded.version, frozen = excluded.frozen, updated = excluded.updated,
  accessed = excluded.accessed, frozen_at = excluded.frozen_at, thawed_at = excluded.thawed_at, notes = excluded.notes
RETURNING n
-- name: count_sessions
SELECT count(*) FROM sessions
-- name: touch_session
UPDATE sessions SET accessed = $2 WHERE id = $1 AND accessed < $2
-- name: remove_session
DELETE FROM sessions WHERE n = $1
-- name: session_var
SELECT key, expires, value FROM session_vars WHERE session = (SELECT n FROM sessions WHERE id = $1) AND key = $2
-- name: session_vars
SELECT key, expires, value FROM session_vars WHERE session = (SELECT n FROM sessions WHERE id = $1) ORDER BY key
-- name: session_keys
SELECT key, expires FROM session_vars WHERE session = $1
-- name: set_session_var
INSERT INTO session_vars (session, key, expires, value) VALUES ($1, $2, $3, $4)
ON CONFLICT (session, key) DO UPDATE SET expires = excluded.expires, value = excluded.value
-- name: remove_session_var
DELETE FROM session_vars WHERE session = $1 AND key = $2
-- name: remove_session_vars
DELETE FROM session_vars WHERE session = $1
-- name: remove_expired_vars
DELETE FROM session_vars WHERE expires > 0 AND expires <= $1
-- name: session_turns
SELECT s.n, s.role, s.at, c.body, m.origin FROM conversation_path p JOIN conversation_spans s ON s.n = p.span
JOIN conversation_messages m ON m.span = p.span JOIN conversation_content c ON c.n = m.content
WHERE p.conversation = $1 AND p.ended = 9223372036854775807 AND p.position >= $2 AND p.position < $3
ORDER BY p.position, m.position
-- name: session_turns_of_run
SELECT c.n, p.span FROM conversations c JOIN conversation_path p ON p.conversation = c.n
JOIN conversation_messages m ON m.span = p.span AND m.position = 0
WHERE c.id >= 'session/' AND c.id < 'session0' AND m.origin = $1
-- name: probe_sessions
SELECT count(*) FROM (SELECT n FROM sessions ORDER BY id DESC LIMIT 1) AS latest
-- name: probe_session_vars
SELECT count(*) FROM (SELECT key FROM session_vars ORDER BY session DESC, key DESC LIMIT 1) AS latest
-- name: probe_session_turns
SELECT count(*) FROM (SELECT n FROM session_turns ORDER BY session DESC, n DESC LIMIT 1) AS latest
-- name: sessions_table
SELECT count(*) FROM information_schema.tables WHERE table_schema = current_schema() AND table_name = 'sessions'
-- name: conversations_table
SELECT count(*) FROM information_schema.tables WHERE table_schema = current_schema() AND table_name = 'conversations'

-- name: conversation
SELECT n, id, owner, session, version, turns, archived, created, updated, about FROM conversations WHERE id = $1
-- name: conversation_id
SELECT id FROM conversations WHERE n = $1
-- name: conversations
SELECT n, id, owner, session, version, turns, archived, created, updated, about FROM conversations
WHERE id > $1 AND archived <= $2 AND ($4::text = '' OR session = $4) ORDER BY id LIMIT $3
-- name: conversations_of
SELECT n, id, owner, session, version, turns, archived, created, updated, about FROM conversations
WHERE id > $1 AND archived <= $2 AND ($4::text = '' OR session = $4) AND owner = $5
ORDER BY id LIMIT $3
-- name: add_conversation
INSERT INTO conversations (id, owner, session, version, turns, archived, created, updated, about)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING n
-- name: set_conversation
UPDATE conversations SET version = $2, turns = $3, archived = $4, updated = $5, about = $6 WHERE n = $1
-- name: remove_conversation
DELETE FROM conversations WHERE n = $1
-- name: remove_conversation_path
DELETE FROM conversation_path WHERE conversation = $1
-- name: remove_conversation_commits
DELETE FROM conversation_commits WHERE conversation = $1
-- name: remove_conversation_drafts
DELETE FROM conversation_drafts WHERE conversation = $1
-- name: remove_conversation_summaries
DELETE FROM conversation_summaries WHERE conversation = $1
-- name: conversation_children
SELECT c.id FROM conversation_children k JOIN conversations c ON c.n = k.child WHERE k.parent = $1 ORDER BY c.n
-- name: conversation_children_of_run
SELECT c.id FROM conversation_children k JOIN conversations c ON c.n = k.child
WHERE k.run = $1 AND k.run <> '' AND c.archived >= $2 ORDER BY c.n
-- name: add_conversation_child
INSERT INTO conversation_children (parent, child, run) VALUES ($1, $2, $3)
-- name: remove_conversation_child
DELETE FROM conversation_children WHERE parent = $1 AND child = $2
-- name: remove_conversation_as_child
DELETE FROM conversation_children WHERE child = $1
-- name: conversation_steps
SELECT n, position, since, ended, span FROM conversation_path WHERE conversation = $1 ORDER BY n
-- name: move_conversation_step
UPDATE conversation_path SET position = $2 WHERE n = $1
-- name: remove_conversation_step
DELETE FROM conversation_path WHERE n = $1
-- name: set_conversation_turns
UPDATE conversations SET turns = $2 WHERE n = $1
-- name: conversation_path
SELECT p.turn, p.span, s.role, p.stale FROM conversation_path p JOIN conversation_spans s ON s.n = p.span
WHERE p.conversation = $1 AND p.ended > $2 AND p.since <= $2 ORDER BY p.position
-- name: end_conversation_path
UPDATE conversation_path SET ended = $3
WHERE conversation = $1 AND ended = 9223372036854775807 AND position >= $2
-- name: add_conversation_step
INSERT INTO conversation_path (conversation, position, since, ended, turn, span, stale)
VALUES ($1, $2, $3, 9223372036854775807, $4, $5, $6)
-- name: copy_conversation_path
INSERT INTO conversation_path (conversation, position, since, ended, turn, span, stale)
SELECT $1, position, 1, ended, turn, span, stale FROM conversation_path
WHERE conversation = $2 AND ended = 9223372036854775807 AND position < $3 ORDER BY position
-- name: add_conversation_span
INSERT INTO conversation_spans (turn, role, at) VALUES ($1, $2, $3) RETURNING n
-- name: conversation_spans
SELECT DISTINCT span FROM conversation_path WHERE conversation = $1 AND turn = $2 ORDER BY span
-- name: add_conversation_content
INSERT INTO conversation_content (hash, size, body) VALUES ($1, $2, $3) ON CONFLICT (hash) DO NOTHING
-- name: add_conversation_message
INSERT INTO conversation_messages (span, position, content, origin)
VALUES ($1, $2, (SELECT n FROM conversation_content WHERE hash = $3), $4)
-- name: conversation_messages
SELECT p.position, p.span, c.body, m.origin FROM conversation_path p
JOIN conversation_messages m ON m.span = p.span JOIN conversation_content c ON c.n = m.content
WHERE p.conversation = $1 AND p.ended > $2 AND p.since <= $2 AND p.position >= $3 ORDER BY p.position, m.position
-- name: conversation_span
SELECT c.body, m.origin FROM conversation_messages m JOIN conversation_content c ON c.n = m.content
WHERE m.span = $1 ORDER BY m.position
-- name: conversation_commit
SELECT version, kind, key, at FROM conversation_commits WHERE conversation = $1 AND key = $2 AND key <> ''
-- name: conversation_commits
SELECT version, kind, key, at FROM conversation_commits WHERE conversation = $1 ORDER BY version DESC LIMIT $2
-- name: add_conversation_commit
INSERT INTO conversation_commits (conversation, version, kind, key, at) VALUES ($1, $2, $3, $4, $5)
-- name: conversation_drafts
SELECT key, run, body, at FROM conversation_drafts WHERE conversation = $1 ORDER BY n
-- name: set_conversation_draft
INSERT INTO conversation_drafts (conversation, key, run, body, at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (conversation, key) DO UPDATE SET run = excluded.run, body = excluded.body, at = excluded.at
-- name: remove_conversation_draft
DELETE FROM conversation_drafts WHERE conversation = $1 AND key = $2
-- name: conversation_summaries
SELECT turns, basis, said, at FROM conversation_summaries WHERE conversation = $1 ORDER BY n
-- name: set_conversation_summary
INSERT INTO conversation_summaries (conversation, turns, basis, said, at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (conversation, turns, basis) DO UPDATE SET said = excluded.said, at = excluded.at
-- name: sweep_conversation_spans
DELETE FROM conversation_spans WHERE n NOT IN (SELECT span FROM conversation_path)
-- name: sweep_conversation_messages
DELETE FROM conversation_messages WHERE span NOT IN (SELECT n FROM conversation_spans)
-- name: sweep_conversation_content
DELETE FROM conversation_content WHERE n NOT IN (SELECT content FROM conversation_messages)

-- name: run_by_key
SELECT id FROM runs WHERE key = $1 AND key <> '' AND NOT imported AND removed = 0

-- name: accounts_version
SELECT version FROM identity WHERE n = 1
-- name: grow_accounts
UPDATE identity SET version = version + 1 WHERE n = 1
-- name: users
SELECT id, login, type, roles, password, locked, created, changed, tenant FROM users ORDER BY id
-- name: set_user
INSERT INTO users (id, login, type, roles, password, locked, created, changed, tenant)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (id) DO UPDATE SET login = excluded.login, type = excluded.type, roles = excluded.roles,
  password = excluded.password, locked = excluded.locked, changed = excluded.changed, tenant = excluded.tenant
-- name: remove_user
DELETE FROM users WHERE id = $1
-- name: tokens
SELECT id, owner, label, hash, narrow, created, expires, kind, session, parent FROM tokens ORDER BY id
-- name: set_token
INSERT INTO tokens (id, owner, label, hash, narrow, created, expires, kind, session, parent)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (id) DO UPDATE SET expires = excluded.expires
-- name: created_roles
SELECT name, doc, includes, created FROM roles ORDER BY name
-- name: add_role
INSERT INTO roles (name, doc, includes, created) VALUES ($1, $2, $3, $4)
-- name: remove_role
DELETE FROM roles WHERE name = $1
-- name: remove_token
DELETE FROM tokens WHERE id = $1

-- name: answer
SELECT print, status, answer FROM action_keys WHERE key = $1
-- name: begin_answer
INSERT INTO action_keys (key, print, status, answer, created) VALUES ($1, $2, 0, '', $3)
-- name: end_answer
UPDATE action_keys SET status = $2, answer = $3 WHERE key = $1
-- name: forget_answer
DELETE FROM action_keys WHERE key = $1
-- name: drop_answers
DELETE FROM action_keys WHERE created < $1
-- name: add_host_record
INSERT INTO host_records (n, at, kind, event, chain, body) VALUES ($1, $2, $3, $4, $5, $6)
-- name: host_end
SELECT n, chain FROM host_tail
-- name: last_host_record
SELECT n, chain FROM (SELECT n, chain FROM host_records UNION ALL SELECT n, chain FROM host_head) AS ends ORDER BY n DESC LIMIT 1
-- name: add_host_tail
INSERT INTO host_tail (n, chain) VALUES ($1, $2)
-- name: set_host_tail
UPDATE host_tail SET n = $1, chain = $2
-- name: host_head
SELECT n, chain FROM host_head
-- name: host_bounds
SELECT (SELECT n FROM host_head) + 1, coalesce((SELECT max(n) FROM host_records), (SELECT n FROM host_head))
-- name: host_records
SELECT n, chain, body FROM host_records WHERE n > $1 ORDER BY n LIMIT $2
-- name: host_events
SELECT n, chain, body FROM host_records WHERE n > $1 AND event = 1 ORDER BY n LIMIT $2
-- name: last_host_events
SELECT n, chain, body FROM host_records WHERE event = 1 ORDER BY n DESC LIMIT $1
-- name: first_host_since
SELECT coalesce((SELECT n FROM host_records WHERE at >= $1 ORDER BY n LIMIT 1),
  coalesce((SELECT max(n) FROM host_records), (SELECT n FROM host_head)) + 1)
-- name: set_host_head
UPDATE host_head SET n = $1, chain = coalesce((SELECT chain FROM host_records r WHERE r.n = $1), chain)
-- name: remove_host_records
DELETE FROM host_records WHERE n < $1
-- name: put_host_head
UPDATE host_head SET n = $1, chain = $2
