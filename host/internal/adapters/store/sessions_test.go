package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/conversation"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/host/internal/orchestration/session/sessiontest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

var (
	ann   = session.Caller{Principal: "ann"}
	aRef  = session.Ref{ID: "s-1"}
	quiet = func(o *Options) { o.NoSync = true }
)

func sessionsOf(s *Store) *session.Service {
	return session.New(s.Sessions(), session.Permissive(), nil, now)
}

// SES-001, SES-002, SES-004, SES-010, SES-012, SES-013, SES-021, SES-030: the store
// in SQLite passes the suite of stores.
func TestSessions(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		sessiontest.Suite(t, func(t *testing.T) session.Store { return on.openAt(t, t.TempDir(), quiet).Sessions() })
	})
}

// fillSession makes a session with two variables and a turn.
func fillSession(t testing.TB, s *Store) {
	t.Helper()
	ctx, x := context.Background(), sessionsOf(s)
	_, err := x.Open(ctx, ann, aRef, edn.MustRead(`{:summary "so far" :meta {:n 1.5M}}`))
	require.Nil(t, err)
	_, err = x.Put(ctx, ann, aRef, map[string]edn.Value{
		"a/large": edn.Text("begin " + strings.Repeat("x", 20_000) + " end"),
		"a/set":   edn.MustRead(`#{:a "b" 3 #inst "2026-11-20T09:00:00Z"}`),
	}, time.Hour)
	require.Nil(t, err)
	require.Nil(t, x.Append(ctx, session.Identity{ID: aRef.ID}, []session.Turn{{Role: session.RoleUser, Text: "hello", Run: "run_1", At: start}}))
}

// dump is everything that is stored of the session.
func dump(t testing.TB, s *Store) string {
	t.Helper()
	x, ctx := s.Sessions(), context.Background()
	all, err := x.Sessions(ctx, session.Filter{Limit: 10})
	require.NoError(t, err)
	vars, err := x.Vars(ctx, aRef.ID)
	require.NoError(t, err)
	turns, err := x.Turns(ctx, aRef.ID, 10)
	require.NoError(t, err)
	return fmt.Sprint(all, vars, turns)
}

// SES-030: a session is the same after a restart.
func TestSessionsOutliveTheStore(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		dir := t.TempDir()
		s := on.openAt(t, dir)
		fillSession(t, s)
		before := dump(t, s)
		assert.Contains(t, before, "so far")
		require.NoError(t, s.Close())
		assert.Equal(t, before, dump(t, on.openAt(t, dir)))
	})
}

// SES-021, JRN-005: a write that cannot be committed is a failure of the store,
// which ends it; nothing of the write is there afterwards.
func TestSessionWritesFailWithTheStore(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		dir := t.TempDir()
		var broken atomic.Bool
		s := on.openAt(t, dir, func(o *Options) {
			o.Faults.Before = func(at string) error {
				if at == "commit" && broken.Load() {
					return errDisk
				}
				return nil
			}
		})
		fillSession(t, s)
		before := dump(t, s)
		broken.Store(true)
		_, err := sessionsOf(s).Put(context.Background(), ann, aRef, map[string]edn.Value{"a/new": edn.Int(1)}, 0)
		require.ErrorIs(t, err, contract.OfType("session/store-unavailable"))
		<-s.Failed()
		broken.Store(false)
		require.NoError(t, s.Close())
		assert.Equal(t, before, dump(t, on.openAt(t, dir)))
	})
}

// SES-030, JRN-030: a repair keeps what can be read of sessions, from a database
// whose trees cannot be used too; a damaged session does not end the store.
func TestRepairKeepsSessions(t *testing.T) {
	base := t.TempDir()
	s := openAt(t, base)
	appendAll(t, s, newScript("run_1").whole(1)...)
	syncRun(t, s, "run_1")
	fillSession(t, s)
	want := dump(t, s)
	require.NoError(t, s.Close())
	for name, row := range map[string]struct {
		damage func(t *testing.T, dir string)
		want   func(t *testing.T, got string)
	}{
		"the first page": {func(t *testing.T, dir string) { zeroPage(t, dir, 0) },
			func(t *testing.T, got string) { assert.Equal(t, want, got) }},
		"a record of a run": {func(t *testing.T, dir string) {
			tamper(t, dir, "UPDATE records SET body = 'x' WHERE id = (1 << 32) | 4")
		},
			func(t *testing.T, got string) { assert.Equal(t, want, got) }},
		"a page of a variable": {func(t *testing.T, dir string) { zeroPage(t, dir, pageOf(t, dir, "begin xxx")) },
			func(t *testing.T, got string) { assert.NotContains(t, got, "begin xxx") }},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(base)))
			row.damage(t, dir)
			assert.False(t, repair(t, dir, false).Sound())
			row.want(t, dump(t, openAt(t, dir)))
		})
	}
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(base)))
	tamper(t, dir, "UPDATE sessions SET notes = '{:summary'")
	s = openAt(t, dir)
	_, err := sessionsOf(s).Freeze(context.Background(), ann, aRef, edn.Nil())
	require.ErrorIs(t, err, contract.OfType("session/store-unavailable"))
	require.NoError(t, s.Err())
	_, _, failure := s.Sessions().Session(context.Background(), aRef.ID)
	var d *Damage
	require.ErrorAs(t, failure, &d)
}

// OPS-007: a database of version 2 gets the tables of sessions and keeps its runs.
func TestSessionsMigrate(t *testing.T) {
	dir, ctx := filled(t), context.Background()
	path := filepath.Join(dir, "ferment.db")
	migrate(t, Options{Path: path}, 2, true)
	assert.True(t, repair(t, dir, true).Sound(), "a database without sessions is whole")
	s := openAt(t, dir)
	require.NoError(t, s.Verify(ctx, "run_1"))
	fillSession(t, s)
}

// keysOfVars are written together by the killed process.
var keysOfVars = []string{"a/one", "a/two", "a/three", "a/four"}

// putVars writes until the process is killed.
func putVars(s *Store) {
	ctx, x := context.Background(), sessionsOf(s)
	if _, err := x.Open(ctx, ann, aRef, edn.Nil()); err != nil {
		panic(err)
	}
	for i := int64(1); ; i++ {
		vars := map[string]edn.Value{}
		for _, key := range keysOfVars {
			vars[key] = edn.Int(i)
		}
		if _, err := x.Put(ctx, ann, aRef, vars, 0); err != nil {
			panic(err)
		}
		fmt.Println("vars", i)
	}
}

// SES-010: after kill -9 a write of several variables is there as a whole or not at
// all, and is there if it was acknowledged.
func TestKilledPutIsAllOrNothing(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		t.Setenv(killVars, "1")
		for seed := range proof.Size(t, "kills of a put of variables", 4, 60) {
			t.Run(strconv.Itoa(seed), func(t *testing.T) {
				random := rand.New(rand.NewPCG(uint64(seed), 11))
				at, lines := 0, 1+random.IntN(60)
				if seed%2 == 0 {
					at, lines = 5+random.IntN(60), 1<<30
				}
				dir := t.TempDir()
				acknowledged := killAfter(t, on, dir, at, lines)["vars"]
				vars, err := on.openAt(t, dir).Sessions().Vars(context.Background(), aRef.ID)
				require.NoError(t, err)
				if len(vars) == 0 {
					assert.Zero(t, acknowledged)
					return
				}
				require.Len(t, vars, len(keysOfVars))
				first, _ := vars[0].Value.AsInt()
				assert.GreaterOrEqual(t, first, int64(acknowledged))
				for _, v := range vars {
					assert.True(t, v.Value.Equal(edn.Int(first)), v.Key)
				}
			})
		}
	})
}

// A change with an error that the caller made writes nothing, and the store goes on.
func TestRefusedChangeKeepsTheStore(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		s := on.openAt(t, t.TempDir())
		err := s.Sessions().Update(context.Background(), "s-1", func(session.Stored) (session.Change, error) {
			return session.Change{}, contract.Errorf("session/not-found", "as the test wants it")
		})
		require.ErrorIs(t, err, contract.OfType("session/not-found"))
		require.NoError(t, s.Err())
	})
}

// said is the last record of a run that adds two turns to the session.
func said(sc *script, session string) journal.Record {
	end := sc.finished(nothing)
	last := end.Body.(*journal.RunFinished)
	last.SessionID, last.SessionTurns = session, journal.RefTo(edn.MustRead(`[{:role :user :text "why"} {:role :assistant :text "because"}]`))
	return end
}

// SES-031: the turns of a run are in its session exactly if its end is recorded.
func TestTurnsAreWrittenWithTheEndOfTheRun(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		ctx := context.Background()
		for _, failing := range []bool{false, true} {
			dir := t.TempDir()
			var broken atomic.Bool
			s := on.openAt(t, dir, func(o *Options) {
				o.Faults.Before = func(at string) error {
					if at == "commit" && broken.Load() {
						return errDisk
					}
					return nil
				}
			})
			_, err := sessionsOf(s).Open(ctx, ann, aRef, edn.Nil())
			require.Nil(t, err)
			_, err = sessionsOf(s).Freeze(ctx, ann, aRef, edn.Nil())
			require.Nil(t, err)
			sc := newScript("run_1")
			appendAll(t, s, sc.accepted(nothing))
			syncRun(t, s, "run_1")
			broken.Store(failing)
			end := said(sc, aRef.ID)
			appendAll(t, s, end)
			failure := s.Sync(ctx, "run_1")
			broken.Store(false)
			require.NoError(t, s.Close())
			s = on.openAt(t, dir)
			runs, unread := s.Runs(ctx, Filter{})
			require.NoError(t, unread)
			turns, unread := s.Sessions().Turns(ctx, aRef.ID, 10)
			require.NoError(t, unread)
			if failing {
				require.Error(t, failure)
				assert.False(t, runs[0].Ended())
				assert.Empty(t, turns)
				continue
			}
			require.NoError(t, failure)
			assert.True(t, runs[0].Ended())
			assert.Equal(t, []session.Turn{
				{N: 1, Role: session.RoleUser, Text: "why", Run: "run_1", At: end.At},
				{N: 2, Role: session.RoleAssistant, Text: "because", Run: "run_1", At: end.At},
			}, turns)
			of, _, unread := s.Sessions().Session(ctx, aRef.ID)
			require.NoError(t, unread)
			assert.False(t, of.Frozen)
			assert.Equal(t, int64(3), of.Version)
		}
	})
}

// SES-031: the turns of a run do not reach another session that got the id of its
// session; the end of the run is recorded all the same.
func TestTurnsDoNotReachALaterSession(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		ctx, s := context.Background(), on.openAt(t, t.TempDir())
		x := sessionsOf(s)
		first, err := x.Open(ctx, ann, aRef, edn.Nil())
		require.Nil(t, err)
		end := func(run string, of session.Identity) int {
			sc := newScript(run)
			first, last := sc.accepted(nothing), said(sc, of.ID)
			body := last.Body.(*journal.RunFinished)
			body.SessionOwner, body.SessionCreated = of.Owner, of.Created
			appendAll(t, s, first, last)
			require.NoError(t, s.Sync(ctx, run))
			turns, err := s.Sessions().Turns(ctx, of.ID, 10)
			require.NoError(t, err)
			return len(turns)
		}
		assert.Equal(t, 2, end("run_1", first.Identity()))
		_, err = x.Delete(ctx, ann, aRef)
		require.Nil(t, err)
		_, err = x.Open(ctx, session.Caller{Principal: "bob"}, aRef, edn.Nil())
		require.Nil(t, err)
		assert.Zero(t, end("run_2", first.Identity()))
		earlier := session.Identity{ID: aRef.ID, Owner: "bob", Created: first.Created.Add(-time.Millisecond)}
		assert.Zero(t, end("run_3", earlier))
		of, _, unread := s.Sessions().Session(ctx, aRef.ID)
		require.NoError(t, unread)
		assert.Equal(t, int64(1), of.Version)
		require.NoError(t, s.Err())
	})
}

// SES-031: the end of a run is recorded though its session was deleted or cannot be
// read.
func TestRunsEndWithoutTheirSession(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		ctx, dir := context.Background(), t.TempDir()
		s := on.openAt(t, dir)
		fillSession(t, s)
		require.NoError(t, s.Close())
		on.tamper(t, dir, "UPDATE sessions SET notes = '{:summary'")
		s = on.openAt(t, dir)
		for i, id := range []string{"gone", aRef.ID} {
			sc := newScript(fmt.Sprint("run_", i))
			appendAll(t, s, sc.accepted(nothing), said(sc, id))
			require.NoError(t, s.Sync(ctx, sc.run))
		}
		require.NoError(t, s.Err())
		_, found, err := s.Sessions().Session(ctx, "gone")
		require.NoError(t, err)
		assert.False(t, found)
	})
}

// rootsOf returns the pages at which the trees of sessions begin, by their names.
func rootsOf(t testing.TB, dir string) map[string]int {
	t.Helper()
	s := openAt(t, dir)
	out := map[string]int{}
	rows, err := s.db.readers().Query("SELECT name, rootpage FROM sqlite_schema WHERE tbl_name IN ('sessions', 'session_vars', 'session_turns')")
	require.NoError(t, err)
	for rows.Next() {
		var name string
		var page int
		require.NoError(t, rows.Scan(&name, &page))
		out[name] = page - 1
	}
	require.NoError(t, rows.Err())
	require.NoError(t, rows.Close())
	require.NoError(t, s.Close())
	return out
}

// manySessions makes hot sessions, each with two variables and two turns that fill
// several pages.
func manySessions(t testing.TB, dir string, n int) {
	t.Helper()
	ctx, s := context.Background(), openAt(t, dir)
	x := sessionsOf(s)
	for i := range n {
		ref := session.Ref{ID: fmt.Sprintf("s-%d", i)}
		of, err := x.Open(ctx, ann, ref, edn.Nil())
		require.Nil(t, err)
		text := edn.Text(strings.Repeat("v", 900))
		_, err = x.Put(ctx, ann, ref, map[string]edn.Value{"a/one": text, "a/two": text}, time.Hour)
		require.Nil(t, err)
		said := session.Turn{Role: session.RoleUser, Text: strings.Repeat("t", 900), Run: "run_1", At: start}
		require.Nil(t, x.Append(ctx, of.Identity(), []session.Turn{said, said}))
	}
	require.NoError(t, s.Close())
}

// JRN-030: whatever tree of the tables of sessions has a damaged root, the store does
// not open, verification names the table, and a repair keeps what is in the other pages
// and says what is lost.
func TestDamagedTreesOfSessions(t *testing.T) {
	const n = 20
	ctx, base := context.Background(), t.TempDir()
	manySessions(t, base, n)
	roots := rootsOf(t, base)
	require.Len(t, roots, 9)
	for name, page := range roots {
		if name == "sessions" { // all of its rows are in the root
			continue
		}
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(base)))
			zeroPage(t, dir, page)
			_, err := tryOpen(t, dir)
			require.ErrorIs(t, err, contract.OfType("journal/damaged"))
			got := repair(t, dir, false)
			assert.NotEmpty(t, got.File)
			assert.Equal(t, Salvaged{Kept: n}, got.Sessions.Sessions)
			assert.Equal(t, Salvaged{Kept: 2 * n}, got.Sessions.Vars)
			assert.Equal(t, Salvaged{Kept: 2 * n}, got.Sessions.Messages)
			s := openAt(t, dir)
			verified, damage, err := s.VerifySessions(ctx)
			require.NoError(t, err)
			assert.Empty(t, damage)
			assert.Equal(t, n, verified)
		})
	}
	t.Run("lost rows", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.CopyFS(dir, os.DirFS(base)))
		zeroPage(t, dir, roots["sessions"])
		got := repair(t, dir, false)
		assert.Equal(t, Salvaged{Lost: n}, got.Sessions.Sessions, "an index has their number")
		assert.Equal(t, Salvaged{Lost: 2 * n}, got.Sessions.Vars, "without their session")
		lines := cutRecords(t, got.Kept)
		require.Len(t, lines, 2*n+1)
		assert.Equal(t, got.Sessions.Value().String(), lines[2*n].String())
		assert.Equal(t, `"session_vars"`, lines[0].Key("table").String())

		assert.Equal(t, Salvaged{Kept: n}, got.Sessions.Conversations)
		s := openAt(t, dir)
		_, err := sessionsOf(s).Open(ctx, session.Caller{Principal: "bob"}, session.Ref{ID: "s-1"}, edn.Nil())
		require.Nil(t, err)
		turns, failed := s.Sessions().Turns(ctx, "s-1", 10)
		require.NoError(t, failed)
		assert.Empty(t, turns, "another session with the id has none of them")
		all, failed := s.Conversations().List(ctx, conversation.Filter{Owner: "ann", Limit: n + 1})
		require.NoError(t, failed)
		assert.Len(t, all, n, "their owner has them")
	})
}

// JRN-030: sessions that are not hot cost the start nothing; verification of all finds
// what is damaged in them, and the store is not ended by reading it.
func TestDamageInWarmSessions(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	s := openAt(t, dir)
	x := sessionsOf(s)
	for i := range 60 {
		ref := session.Ref{ID: fmt.Sprintf("s-%02d", i)}
		_, err := x.Open(ctx, ann, ref, edn.Nil())
		require.Nil(t, err)
		_, err = x.Put(ctx, ann, ref, map[string]edn.Value{"a/x": edn.Text(fmt.Sprintf("mark %02d ", i) + strings.Repeat("v", 900))}, 0)
		require.Nil(t, err)
		_, err = x.Freeze(ctx, ann, ref, edn.Nil())
		require.Nil(t, err)
	}
	require.NoError(t, s.Close())
	zeroPage(t, dir, pageOf(t, dir, "mark 30 "))
	s = openAt(t, dir)
	_, damage, err := s.VerifySessions(ctx)
	require.NoError(t, err)
	require.Len(t, damage, 1)
	assert.Contains(t, damage[0].What, "session_vars")
	all, err := s.VerifyAll(ctx)
	require.NoError(t, err)
	assert.Equal(t, damage, all)
	require.NoError(t, s.Err())
	require.NoError(t, s.Close())
	got := repair(t, dir, false)
	assert.Equal(t, 60, got.Sessions.Sessions.Kept)
	assert.Equal(t, 60, got.Sessions.Vars.Kept+got.Sessions.Vars.Lost)
	assert.Positive(t, got.Sessions.Vars.Lost)
}

// JRN-030: rows that cannot be read are damage, and a repair keeps the rest of their
// session.
func TestDamagedRowsOfSessions(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	s := openAt(t, dir)
	fillSession(t, s)
	require.NoError(t, s.Close())
	tamper(t, dir, "UPDATE sessions SET notes = '{:summary', frozen = 9", "UPDATE session_vars SET value = CAST('{' AS BLOB) WHERE key = 'a/set'")
	plan := repair(t, dir, true)
	require.NotNil(t, plan.Sessions.Damage)
	got := repair(t, dir, false)
	assert.False(t, got.Sound())
	assert.Equal(t, RepairedSessions{
		Sessions: Salvaged{Kept: 1}, Vars: Salvaged{Kept: 1, Lost: 1}, Conversations: Salvaged{Kept: 1}, Messages: Salvaged{Kept: 1},
		Damage: got.Sessions.Damage,
	}, got.Sessions)
	assert.Len(t, cutRecords(t, got.Kept), 3)
	s = openAt(t, dir)
	of, found, err := s.Sessions().Session(ctx, aRef.ID)
	require.NoError(t, err)
	require.True(t, found)
	assert.True(t, of.Frozen)
	require.NoError(t, s.Close())
	assert.True(t, repair(t, dir, true).Sound())
}

// JRN-005, JRN-030: a write that meets a damaged page ends the store as damaged, not as
// one whose disk is full, and its caller is told what helps.
func TestWritesThatMeetDamage(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	manySessions(t, dir, 20)
	root := rootsOf(t, dir)["session_vars"]
	s := openAt(t, dir)
	require.NoError(t, s.Close())
	s = openAt(t, dir)
	zeroPage(t, dir, root)
	_, err := sessionsOf(s).Put(ctx, ann, session.Ref{ID: "s-1"}, map[string]edn.Value{"a/new": edn.Int(1)}, 0)
	require.ErrorIs(t, err, contract.OfType("session/store-unavailable"))
	require.ErrorIs(t, err, contract.OfType("journal/damaged"))
	assert.Contains(t, err.Hint, "journal-repair")
	assert.False(t, err.Retryable)
	<-s.Failed()
	require.ErrorIs(t, s.Err(), contract.OfType("journal/damaged"))
}

// JRN-061: a purge of a run deletes the turns that it added to its session from the
// disk, and no others.
func TestPurgeErasesTurns(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		ctx, dir := context.Background(), t.TempDir()
		s := on.openAt(t, dir)
		fillSession(t, s) // has a turn of run_1
		sc := newScript("run_2")
		begun, end := sc.accepted(nothing), said(sc, aRef.ID)
		end.Body.(*journal.RunFinished).SessionTurns = journal.RefTo(edn.Vector(edn.MustMap(
			edn.K("role"), edn.K("user"), edn.K("text"), edn.Text(strings.Repeat(canary+" ", 50)))))
		appendAll(t, s, begun, end)
		require.NoError(t, s.Sync(ctx, "run_2"))
		s.Drop("run_2")
		turns, err := s.Sessions().Turns(ctx, aRef.ID, 10)
		require.NoError(t, err)
		require.Len(t, turns, 2)
		require.NoError(t, s.Purge(ctx, "run_2"))
		turns, err = s.Sessions().Turns(ctx, aRef.ID, 10)
		require.NoError(t, err)
		require.Len(t, turns, 1)
		assert.Equal(t, "run_1", turns[0].Run)
		if on.name == onFile.name {
			assert.False(t, onDisk(t, dir, canary))
		}
		require.NoError(t, s.Verify(ctx, "run_2"))
	})
}
