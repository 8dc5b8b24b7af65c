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

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/host/internal/orchestration/session/sessiontest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
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
	require.NoError(t, Migrate(ctx, Options{Path: path}, 2, true))
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
		for seed := range killPoints {
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
