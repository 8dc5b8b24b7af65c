package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"lukechampine.com/blake3"

	"github.com/fermenthq/ferment/host/internal/orchestration/conversation"
	"github.com/fermenthq/ferment/host/internal/orchestration/conversation/conversationtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/contract"
	messages "github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/edn"
)

// CNV-022: the turns of sessions are the paths of conversations.
func TestConversationsOfSessions(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		conversationtest.SessionSuite(t, func(t *testing.T) (conversation.Store, session.Store) {
			s := on.openAt(t, t.TempDir(), quiet)
			return s.Conversations(), s.Sessions()
		})
	})
}

// talk calls the intents of conversations for ann.
func talk(t testing.TB, s *Store, intent, input string) (edn.Value, *contract.Error) {
	t.Helper()
	return conversation.New(s.Conversations(), nil, conversation.Rules{}, now).Do(context.Background(), conversation.Call{
		Caller: ann, Intent: "conversation/" + intent, Input: edn.MustRead(input), Path: edn.Vector(), Key: intent + input,
	})
}

func mustTalk(t testing.TB, s *Store, intent, input string) edn.Value {
	t.Helper()
	out, err := talk(t, s, intent, input)
	require.Nil(t, err)
	return out
}

// onPath are the texts on the path of a version of a conversation, 0 for the current one.
func onPath(t testing.TB, s *Store, id string, version int64) string {
	t.Helper()
	in := fmt.Sprintf(`{:conversation/id %q}`, id)
	if version > 0 {
		in = fmt.Sprintf(`{:conversation/id %q :version %d}`, id, version)
	}
	var out []string
	for m := range mustTalk(t, s, "get", in).Key("messages").Elems() {
		text, _ := m.Key("content").AsString()
		out = append(out, text)
	}
	return strings.Join(out, "|")
}

// turnsOf are the texts of the turns of a session, with their runs.
func turnsOf(t testing.TB, s *Store, id string) (out string) {
	t.Helper()
	turns, err := s.Sessions().Turns(context.Background(), id, 100)
	require.NoError(t, err)
	for _, turn := range turns {
		out += turn.Role + " " + turn.Text + " " + turn.Run + "\n"
	}
	return out
}

// versionBefore are the rows of two sessions and a conversation in a database of version
// 11: s-1 has the turns of three runs and a summary of the first two of them, s-2 turns
// between those; d was asked by an agent of run_7, c by a caller.
var versionBefore = []string{
	`INSERT INTO sessions (id, owner, version, frozen, created, updated, accessed, frozen_at, thawed_at, notes) VALUES
		('s-1', 'ann', 4, 0, 1000000, 2000000, 2000000, 0, 0, '{:meta {:a ":summarized-turns 5"} :summarized-turns 5 :summary "so far"}'),
		('s-2', 'bob', 2, 1, 1000000, 2000000, 2000000, 0, 0, '{}')`,
	`INSERT INTO session_turns (session, role, said, run, at)
		SELECT s.n, t.role, t.said, t.run, t.at FROM sessions s JOIN (
			SELECT 1 AS k, 's-1' AS id, 'user' AS role, 'one' AS said, 'run_1' AS run, 1000000000 AS at
			UNION ALL SELECT 2, 's-1', 'assistant', 'the same', 'run_1', 1000000000
			UNION ALL SELECT 3, 's-2', 'user', 'bob', 'run_2', 2000000000
			UNION ALL SELECT 4, 's-1', 'user', 'two', 'run_3', 3000000000
			UNION ALL SELECT 5, 's-1', 'assistant', 'the same', 'run_3', 3000000000
			UNION ALL SELECT 6, 's-1', 'user', 'three', 'run_4', 4000000000
			UNION ALL SELECT 7, 's-1', 'assistant', 'three "quoted"', 'run_4', 4000000000
		) t ON t.id = s.id ORDER BY t.k`,
	`INSERT INTO conversations (id, owner, session, version, turns, archived, created, updated, about) VALUES
		('c', 'ann', '', 0, 0, 0, 1000000, 1000000, '{:from {:depth 1 :id "p" :relation :spawned-from} :title "} :id \"q\" "}'),
		('d', 'ann', '', 2, 1, 1, 1000000, 1000000, '{:from {:depth 1 :id "p" :relation :spawned-from}}'),
		('p', 'ann', '', 0, 0, 0, 1000000, 1000000, '{}')`,
	`INSERT INTO conversation_commits (conversation, version, kind, key, at)
		SELECT n, 1, 'spawn', 'delegate-x', 1000000 FROM conversations WHERE id = 'd'`,
	`INSERT INTO conversation_spans (turn, role, at) VALUES (0, 'assistant', 1000000)`,
	`INSERT INTO conversation_path (conversation, position, since, ended, turn, span, stale)
		SELECT c.n, 0, 1, 9223372036854775807, s.n, s.n, 0 FROM conversations c, conversation_spans s WHERE c.id = 'd'`,
	`INSERT INTO conversation_messages (span, position, content, origin) 
		SELECT s.n, 0, c.n, '{:run "run_7"}' FROM conversation_spans s, conversation_content c`,
}

// before returns the directory of a database of version 11 with these rows.
func before(t *testing.T, on backend) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, on.openAt(t, dir).Close())
	migrate(t, on.options(t, dir), 11, true)
	body := messageBody(messages.Assistant("done"))
	content := fmt.Sprintf("INSERT INTO conversation_content (hash, size, body) VALUES (x'%x', %d, x'%x')", blake3.Sum256(body), len(body), body)
	rows := append([]string{content}, versionBefore...)
	if on.driver != "sqlite" {
		rows = []string{strings.ReplaceAll(content, "x'", `'\x`)}
		for _, text := range versionBefore {
			rows = append(rows, strings.ReplaceAll(strings.ReplaceAll(text, "t.said,", "t.said::bytea,"), `\"`, `\\"`))
		}
	}
	on.tamper(t, dir, rows...)
	return dir
}

const (
	turnsOfOne = "user one run_1\nassistant the same run_1\nuser two run_3\nassistant the same run_3\nuser three run_4\nassistant three \"quoted\" run_4\n"
	turnsOfTwo = "user bob run_2\n"
)

// CNV-022, CNV-025, OPS-007: a database of the version before gets the turns of its
// sessions as paths with a version for each act, and knows what was spawned; the way back
// has them as they were, and so has a repair.
func TestMigrationOfTurns(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		ctx, dir := context.Background(), before(t, on)
		check := func(s *Store) {
			t.Helper()
			assert.Equal(t, turnsOfOne, turnsOf(t, s, "s-1"))
			assert.Equal(t, turnsOfTwo, turnsOf(t, s, "s-2"))
			turns, err := s.Sessions().Turns(ctx, "s-1", 3)
			require.NoError(t, err)
			require.Len(t, turns, 3)
			assert.Equal(t, time.Unix(4, 0).UTC(), turns[2].At)
			kept, cut, failed := session.New(s.Sessions(), session.Permissive(), nil, now).Turns(ctx, ann, "s-1")
			require.Nil(t, failed)
			assert.False(t, cut)
			require.Len(t, kept, 2, "the summary covers the others")
			assert.Equal(t, "three", kept[0].Text)
			of, _, err := s.Sessions().Session(ctx, "s-1")
			require.NoError(t, err)
			assert.Equal(t, `{:a ":summarized-turns 5"}`, of.Notes.Key("meta").String())
			children, err := s.writer.ids(ctx, "conversation_children", "p")
			require.NoError(t, err)
			assert.Equal(t, []string{"c", "d"}, children)
			children, err = s.writer.ids(ctx, "conversation_children_of_run", "run_7", 0)
			require.NoError(t, err)
			assert.Equal(t, []string{"d"}, children)
		}
		s := on.openAt(t, dir)
		check(s)
		assert.Equal(t, "one|the same|two|the same|three|three \"quoted\"", onPath(t, s, "session/s-1", 3))
		assert.Equal(t, "one|the same", onPath(t, s, "session/s-1", 1))
		of, err := openConversation(ctx, s.read, "session/s-2")
		require.NoError(t, err)
		assert.Equal(t, []any{"bob", "s-2", 1}, []any{of.Owner, of.Session, of.Turns})
		mustTalk(t, s, "fork", `{:conversation/id "session/s-1" :new/id "f"}`)
		require.NoError(t, s.Close())

		migrate(t, on.options(t, dir), 11, true)
		s = on.openAt(t, dir)
		check(s)
		assert.Equal(t, "one|the same|two|the same|three|three \"quoted\"", onPath(t, s, "f", 0))
	})
}

// OPS-007: the way back finds the session of a conversation by its id, in a database with
// many sessions too.
func TestMoveSearchesSessions(t *testing.T) {
	s := openAt(t, t.TempDir())
	rows, err := s.db.readers().Query("EXPLAIN QUERY PLAN " + moveText["talks"])
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	var plan []string
	for rows.Next() {
		var id, parent, unused int
		var step string
		require.NoError(t, rows.Scan(&id, &parent, &unused, &step))
		plan = append(plan, step)
	}
	require.NoError(t, rows.Err())
	assert.Contains(t, strings.Join(plan, "\n"), "SEARCH s USING INDEX sqlite_autoindex_sessions_1 (id=?)")
}

// JRN-030, CNV-022: a repair of a database of the version before moves the turns of its
// sessions.
func TestRepairMovesTurns(t *testing.T) {
	dir := before(t, onFile)
	zeroPage(t, dir, 0)
	assert.False(t, repair(t, dir, false).Sound())
	s := openAt(t, dir)
	assert.Equal(t, turnsOfOne, turnsOf(t, s, "s-1"))
	assert.Equal(t, turnsOfTwo, turnsOf(t, s, "s-2"))
	children, err := s.writer.ids(context.Background(), "conversation_children_of_run", "run_7", 0)
	require.NoError(t, err)
	assert.Equal(t, []string{"d"}, children)
}

// JRN-030, CNV-022: conversations that were spawned from that of a lost session stay with
// it, also if a later session has the same id; those of a lost conversation are not deleted
// with any other. The new ids are not valid in requests.
func TestRepairRenamesParents(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	s := openAt(t, dir)
	_, err := sessionsOf(s).Open(ctx, ann, aRef, edn.Nil())
	require.Nil(t, err)
	endRun(t, s, "run_1", "one")
	mustTalk(t, s, "open", `{:conversation/id "p"}`)
	for _, id := range []string{"session/s-1", "p"} {
		mustTalk(t, s, "spawn", fmt.Sprintf(`{:conversation/id %q :new/id "child-of-%s"}`, id, id[len(id)-1:]))
		mustTalk(t, s, "fork", fmt.Sprintf(`{:conversation/id %q :new/id "fork-of-%s"}`, id, id[len(id)-1:]))
	}
	require.NoError(t, s.Close())
	tamper(t, dir, "DELETE FROM sessions", "DELETE FROM conversations WHERE id = 'p'",
		"INSERT INTO conversations SELECT 99, 'session-s-1-1', owner, session, 1, 0, 0, created, updated, '{}' FROM conversations WHERE n = 1")
	for range 2 { // the second one finds the names of the first
		zeroPage(t, dir, 0)
		got := repair(t, dir, false)
		require.False(t, got.Sound())
		require.NoError(t, os.RemoveAll(got.Kept))
	}
	s = openAt(t, dir)
	all := []string{"lost/1/s-1", "child-of-1", "fork-of-1", "child-of-p", "fork-of-p", "session-s-1-1"}
	require.Equal(t, all, left(t, s, all...))
	parents := map[string]string{"child-of-1": "lost/1/s-1", "fork-of-1": "lost/1/s-1", "child-of-p": "lost/0/p", "fork-of-p": "p"}
	for id, want := range parents {
		r, err := openConversation(ctx, s.read, id)
		require.NoError(t, err)
		assert.Equal(t, want, r.From.ID, id)
	}
	bob := session.Caller{Principal: "bob"}
	_, err = sessionsOf(s).Open(ctx, bob, aRef, edn.Nil())
	require.Nil(t, err)
	_, err = sessionsOf(s).Delete(ctx, bob, aRef)
	require.Nil(t, err)
	for _, intent := range []string{"open", "delete"} {
		mustTalk(t, s, intent, `{:conversation/id "p"}`)
	}
	assert.Equal(t, all, left(t, s, all...), "they had other parents")
	_, err = talk(t, s, "open", `{:conversation/id "lost/2/s-1"}`)
	require.ErrorIs(t, err, contract.OfType("invalid-request"))
	mustTalk(t, s, "delete", `{:conversation/id "lost/1/s-1"}`)
	assert.Equal(t, []string{"fork-of-1", "child-of-p", "fork-of-p", "session-s-1-1"}, left(t, s, all...))
}

// endRun records a run that adds two turns to the session s-1.
func endRun(t testing.TB, s *Store, run, asked string) {
	t.Helper()
	sc := newScript(run)
	begun, end := sc.accepted(nothing), said(sc, aRef.ID)
	end.Body.(*journal.RunFinished).SessionTurns = journal.RefTo(edn.MustRead(fmt.Sprintf(
		`[{:role :user :text %q} {:role :assistant :text "re: %s"}]`, asked, asked)))
	appendAll(t, s, begun, end)
	require.NoError(t, s.Sync(context.Background(), run))
	s.Drop(run)
}

// CNV-022, JRN-061: a purge takes the turns of a run out of every version of its session,
// which goes on; a fork keeps those that it shares, and what it does not share is erased.
func TestPurgeOfASharedTurn(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		ctx, dir := context.Background(), t.TempDir()
		s := on.openAt(t, dir)
		_, err := sessionsOf(s).Open(ctx, ann, aRef, edn.Nil())
		require.Nil(t, err)
		endRun(t, s, "run_1", "one")
		endRun(t, s, "run_2", "two "+canary)
		mustTalk(t, s, "fork", `{:conversation/id "session/s-1" :new/id "f"}`)
		endRun(t, s, "run_3", "three "+canary[:8]+" of its own")
		mustTalk(t, s, "truncate", `{:conversation/id "session/s-1" :turn/id "t-5"}`)
		endRun(t, s, "run_4", "four")
		require.NoError(t, s.Purge(ctx, "run_2"))
		fork := "one|re: one|two " + canary + "|re: two " + canary
		assert.Equal(t, fork, onPath(t, s, "f", 0))
		assert.Equal(t, "one|re: one|four|re: four", onPath(t, s, "session/s-1", 0))
		third := "three " + canary[:8] + " of its own"
		assert.Equal(t, []string{"one|re: one", "one|re: one", "one|re: one|" + third + "|re: " + third, "one|re: one"}, []string{
			onPath(t, s, "session/s-1", 1), onPath(t, s, "session/s-1", 2), onPath(t, s, "session/s-1", 3), onPath(t, s, "session/s-1", 4),
		})
		require.NoError(t, s.Purge(ctx, "run_3"))
		endRun(t, s, "run_5", "five")
		assert.Equal(t, "one|re: one|four|re: four|five|re: five", onPath(t, s, "session/s-1", 0))
		mustTalk(t, s, "restore", `{:conversation/id "session/s-1" :version 5}`)
		assert.Equal(t, "one|re: one|four|re: four", onPath(t, s, "session/s-1", 0))
		mustTalk(t, s, "delete", `{:conversation/id "f"}`)
		_, failed := s.Conversations().Sweep(ctx)
		require.NoError(t, failed)
		var contents int
		require.NoError(t, s.db.readers().QueryRow("SELECT count(*) FROM conversation_content").Scan(&contents))
		assert.Equal(t, 6, contents)
		require.NoError(t, s.Close())
		if on.name == onFile.name {
			assert.False(t, onDisk(t, dir, "of its own"))
		}
	})
}

// JRN-061: a purge also erases what deletions before it have left of the run, by whichever
// host of the database they were.
func TestPurgeOfADeletedTurn(t *testing.T) {
	for name, remove := range map[string]func(s *Store) *contract.Error{
		"session": func(s *Store) *contract.Error {
			_, err := sessionsOf(s).Delete(context.Background(), ann, aRef)
			return err
		},
		"conversation": func(s *Store) *contract.Error {
			_, err := talk(t, s, "delete", `{:conversation/id "session/s-1"}`)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, on backend) {
				ctx, dir := context.Background(), t.TempDir()
				s := on.openAt(t, dir)
				_, err := sessionsOf(s).Open(ctx, ann, aRef, edn.Nil())
				require.Nil(t, err)
				endRun(t, s, "run_1", strings.Repeat(canary+" ", 400))
				_, failed := s.Conversations().Sweep(ctx) // as the upkeep does from time to time
				require.NoError(t, failed)
				require.Nil(t, remove(s))
				if on.name != onFile.name {
					s.orphans.Store(false) // as it is in another host
				}
				require.NoError(t, s.Purge(ctx, "run_1"))
				for _, table := range []string{"spans", "messages", "content"} {
					var rows int
					require.NoError(t, s.db.readers().QueryRow("SELECT count(*) FROM conversation_"+table).Scan(&rows))
					assert.Zero(t, rows, table)
				}
				require.NoError(t, s.Close())
				if on.name == onFile.name {
					assert.False(t, onDisk(t, dir, canary))
				}
			})
		})
	}
}

// summarizing are the sessions of a store, with a window that a summary keeps empty.
func summarizing(s *Store) *session.Service {
	rules := session.Permissive()
	rules.Window, rules.SummaryChars = session.Window{Turns: 3, Chars: 1000}, 50
	return session.New(s.Sessions(), rules, nil, now)
}

// summarized is a session with a summary of the turns of the runs run_1 and run_2.
func summarized(t testing.TB, s *Store) *session.Service {
	t.Helper()
	ctx, x := context.Background(), summarizing(s)
	_, err := x.Open(ctx, ann, aRef, edn.Nil())
	require.Nil(t, err)
	endRun(t, s, "run_1", "one")
	endRun(t, s, "run_2", "two")
	x.Use(aRef.ID)()
	ids, err := x.Summarize(ctx, func(context.Context, session.Session, string, int) (string, *contract.Error) { return "sum", nil })
	require.Nil(t, err)
	require.Len(t, ids, 1)
	left, _, err := x.Turns(ctx, ann, aRef.ID)
	require.Nil(t, err)
	require.Empty(t, left)
	return x
}

// SES-016, JRN-030: after a repair a summary does not cover turns that get the numbers of
// lost ones, with or without others that are left; it stays.
func TestSummaryAfterARepair(t *testing.T) {
	for name, lost := range map[string][]string{
		"some turns":       {"DELETE FROM conversation_path WHERE position > 0", "DELETE FROM conversation_spans WHERE n > 1"},
		"the conversation": {"DELETE FROM conversations", "DELETE FROM conversation_path", "DELETE FROM conversation_spans"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, dir := context.Background(), t.TempDir()
			s := openAt(t, dir)
			summarized(t, s)
			require.NoError(t, s.Close())
			tamper(t, dir, append(lost, "DELETE FROM conversation_messages WHERE span NOT IN (SELECT n FROM conversation_spans)")...)
			zeroPage(t, dir, 0)
			require.False(t, repair(t, dir, false).Sound())
			s = openAt(t, dir)
			endRun(t, s, "run_3", "three")
			x := summarizing(s)
			left, _, err := x.Turns(ctx, ann, aRef.ID)
			require.Nil(t, err)
			require.Len(t, left, 2)
			assert.Equal(t, "three", left[0].Text)
			of, err := x.Get(ctx, ann, aRef.ID)
			require.Nil(t, err)
			assert.Equal(t, `"sum"`, of.Notes.Key("summary").String())
		})
	}
}

// SES-016, JRN-061: a summary does not cover turns that get the numbers of purged ones.
func TestSummaryAfterAPurge(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		ctx, s := context.Background(), on.openAt(t, t.TempDir())
		x := summarized(t, s)
		require.NoError(t, s.Purge(ctx, "run_2"))
		endRun(t, s, "run_3", "three")
		left, _, err := x.Turns(ctx, ann, aRef.ID)
		require.Nil(t, err)
		require.Len(t, left, 2)
		assert.Equal(t, "three", left[0].Text)
	})
}

// delegated has an agent of a run ask another one within the conversation p, twice.
func delegated(t testing.TB, s *Store, run string) (ids []string) {
	t.Helper()
	x := conversation.New(s.Conversations(), nil, conversation.Rules{}, now)
	mustTalk(t, s, "open", `{:conversation/id "p"}`)
	for _, task := range []string{"first", "second"} {
		got, err := x.Delegate(context.Background(), conversation.Delegation{
			Owner: ann.Principal, Conversation: "p", Turn: "t-0", Run: run, Path: edn.Vector(), Agent: "agent/a",
			Input: edn.MustRead(fmt.Sprintf(`{:messages [{:role :user :content "%s of %s"}]}`, task, run)),
		})
		require.Nil(t, err)
		ids = append(ids, got.ID)
	}
	return ids
}

// left are those conversations that are there.
func left(t testing.TB, s *Store, ids ...string) (out []string) {
	t.Helper()
	for _, id := range ids {
		r, err := openConversation(context.Background(), s.read, id)
		require.NoError(t, err)
		if r.n != 0 {
			out = append(out, id)
		}
	}
	return out
}

// CNV-014, CNV-025, JRN-060, JRN-061: the conversations of asked agents go with the run,
// purged or removed, and with the conversation that they were spawned from. What a caller
// took out of the archive outlives a removed run, not a purged one.
func TestConversationsOfAgentsGo(t *testing.T) {
	for name, row := range map[string]struct {
		remove func(s *Store) error
		want   func(ids []string) []string
	}{
		"purge":  {func(s *Store) error { return s.Purge(context.Background(), "run_1") }, func([]string) []string { return []string{"f", "p"} }},
		"parent": {func(s *Store) error { _, err := talk(t, s, "delete", `{:conversation/id "p"}`); return errorOrNil(err) }, func([]string) []string { return []string{"f"} }},
		"retention": {func(s *Store) error { _, err := s.Retain(context.Background()); return err },
			func(ids []string) []string { return []string{ids[1], "f", "grandchild", "p"} }},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, on backend) {
				s := on.openAt(t, t.TempDir(), func(o *Options) { o.Limits.Retain = Retention{Age: time.Minute} })
				appendAll(t, s, newScript("run_1").whole(1)...)
				syncRun(t, s, "run_1")
				s.Drop("run_1")
				ids := delegated(t, s, "run_1")
				mustTalk(t, s, "archive", fmt.Sprintf(`{:conversation/id %q :archived? false}`, ids[1]))
				mustTalk(t, s, "fork", fmt.Sprintf(`{:conversation/id %q :new/id "f"}`, ids[0]))
				mustTalk(t, s, "spawn", fmt.Sprintf(`{:conversation/id %q :new/id "grandchild"}`, ids[1]))
				all := []string{ids[0], ids[1], "f", "grandchild", "p"}
				require.Equal(t, all, left(t, s, all...))
				require.NoError(t, row.remove(s))
				assert.Equal(t, row.want(ids), left(t, s, all...))
				assert.Equal(t, "first of run_1", onPath(t, s, "f", 0), "a fork keeps the turns")
				var rows int
				require.NoError(t, s.db.readers().QueryRow("SELECT count(*) FROM conversation_children WHERE child NOT IN (SELECT n FROM conversations)").Scan(&rows))
				assert.Zero(t, rows)
			})
		})
	}
}

// JRN-060, JRN-061, SES-004: a conversation whose description is damaged goes with its
// session, its parent or its run all the same.
func TestDamagedConversationsGo(t *testing.T) {
	for name, remove := range map[string]func(s *Store) error{
		"session": func(s *Store) error {
			_, err := sessionsOf(s).Delete(context.Background(), ann, aRef)
			return errorOrNil(err)
		},
		"parent": func(s *Store) error { _, err := talk(t, s, "delete", `{:conversation/id "p"}`); return errorOrNil(err) },
		"purge":  func(s *Store) error { return s.Purge(context.Background(), "run_1") },
		"retention": func(s *Store) error {
			_, err := s.Retain(context.Background())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, on backend) {
				dir := t.TempDir()
				s := on.openAt(t, dir)
				_, err := sessionsOf(s).Open(context.Background(), ann, aRef, edn.Nil())
				require.Nil(t, err)
				endRun(t, s, "run_1", "one")
				mustTalk(t, s, "spawn", `{:conversation/id "session/s-1" :new/id "child"}`)
				ids := delegated(t, s, "run_1")
				require.NoError(t, s.Close())
				on.tamper(t, dir, "UPDATE sessions SET frozen = 1", fmt.Sprintf( // a start reads what is hot
					"UPDATE conversations SET about = '{' WHERE id IN ('session/s-1', 'child', '%s', '%s')", ids[0], ids[1]))
				s = on.openAt(t, dir, func(o *Options) { o.Limits.Retain = Retention{Age: time.Minute} })
				require.NoError(t, remove(s))
				gone := ids
				if name == "session" {
					gone = []string{"session/s-1", "child"}
				}
				var rows int
				for _, id := range gone {
					require.NoError(t, s.db.readers().QueryRow(fmt.Sprintf("SELECT count(*) FROM conversations WHERE id = '%s'", id)).Scan(&rows))
					assert.Zero(t, rows, id)
				}
				require.NoError(t, s.db.readers().QueryRow("SELECT count(*) FROM conversation_children WHERE child NOT IN (SELECT n FROM conversations)").Scan(&rows))
				assert.Zero(t, rows)
				require.NoError(t, s.Err())
			})
		})
	}
}

func errorOrNil(err *contract.Error) error {
	if err == nil {
		return nil
	}
	return err
}

// A database of the version before keeps no copy of the turns that were moved in its free
// pages, from which a purge could not erase them (JRN-061).
func TestMovedTurnsLeaveNothing(t *testing.T) {
	dir := before(t, onFile)
	tamper(t, dir, fmt.Sprintf("UPDATE session_turns SET said = '%s' || said WHERE run = 'run_1'", strings.Repeat(canary+" ", 400)))
	s := openAt(t, dir)
	require.NoError(t, s.Close())
	s = openAt(t, dir)
	sc := newScript("run_1")
	appendAll(t, s, sc.accepted(nothing), sc.finished(nothing))
	require.NoError(t, s.Sync(context.Background(), "run_1"))
	s.Drop("run_1")
	require.NoError(t, s.Purge(context.Background(), "run_1"))
	copies, err := filepath.Glob(filepath.Join(dir, "*.v11*"))
	require.NoError(t, err)
	require.NotEmpty(t, copies, "the copy that the migration makes has them")
	for _, path := range copies {
		require.NoError(t, os.Remove(path))
	}
	assert.False(t, onDisk(t, dir, canary))
}
