//go:build external

package store

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/edn"
)

// operate executes statements in the database of a directory, as its operator does.
func operate(t testing.TB, dir string, statements ...string) {
	t.Helper()
	require.NoError(t, server(t).Exec(context.Background(), schemaNamed(t, dir), statements...))
}

// OPS-007: a schema that is taken down and made again is the same; hosts that start at
// once on an empty database make one schema.
func TestPostgresMigrations(t *testing.T) {
	dir, ctx := onServer.filled(t), context.Background()
	opts := onServer.options(t, dir)
	tables := func() (out string) {
		db, err := openPostgres(ctx, *opts.Postgres, true, nil)
		require.NoError(t, err)
		defer func() { require.NoError(t, db.close()) }()
		require.NoError(t, db.readers().QueryRow(`SELECT coalesce(string_agg(format('%s %s %s', table_name, column_name, data_type), E'\n'
			ORDER BY table_name, ordinal_position), '') FROM information_schema.columns WHERE table_schema = current_schema()`).Scan(&out))
		return out
	}
	before := tables()
	var loss *LossError
	require.ErrorAs(t, migrated(opts, 0, false), &loss)
	migrate(t, opts, 0, true)
	assert.Equal(t, 4, strings.Count(tables(), "\n")+1, "the table of migrations is left: %s", tables())
	migrate(t, opts, -1, false)
	assert.Equal(t, before, tables())

	dir = t.TempDir()
	stores := make([]*Store, 4)
	var all sync.WaitGroup
	for i := range stores {
		all.Go(func() {
			s, err := Open(ctx, Options{Postgres: &Postgres{DSN: dsnOf(t, dir), Host: fmt.Sprint("host-", i)}})
			if assert.NoError(t, err) {
				stores[i] = s
			}
		})
	}
	all.Wait()
	for _, s := range stores {
		require.NoError(t, s.Close())
	}
	operate(t, dir, "INSERT INTO migrations VALUES (99, '0099_later', 'b3:', 1)")
	_, err := onServer.tryOpen(t, dir)
	var schema *SchemaError
	require.ErrorAs(t, err, &schema)
	assert.Equal(t, 99, schema.Found)
}

// Every named statement of PostgreSQL can be prepared, and both dialects have those
// that the store uses with both.
func TestPostgresStatements(t *testing.T) {
	s := onServer.openAt(t, t.TempDir())
	all, err := readStatements("postgres")
	require.NoError(t, err)
	lite, err := readStatements("sqlite")
	require.NoError(t, err)
	for name := range all {
		if name != "begin" { // two statements
			_, err := s.read.get(context.Background(), name)
			assert.NoError(t, err, name)
		}
	}
	for name := range lite {
		verb, _, _ := strings.Cut(name, "_")
		onlyRepair := slices.Contains([]string{"salvage", "all", "count", "walk", "cut", "recount", "free"}, verb) || strings.HasSuffix(name, "_table") ||
			name == "identity_columns" || strings.HasSuffix(name, "_without_kinds") || strings.HasSuffix(name, "_without_tenants")
		if _, ok := all[name]; !ok && !onlyRepair && !slices.Contains([]string{"run_numbers", "set_accounts_version"}, name) {
			t.Errorf("postgres has no statement %s", name)
		}
	}
}

// JRN-003: a server that does not keep what it has committed is refused.
func TestPostgresRefusesUnsafeSettings(t *testing.T) {
	dir := t.TempDir()
	for setting, value := range map[string]string{"synchronous_commit": "off"} {
		_, err := onServer.tryOpen(t, dir, func(o *Options) { o.Postgres.DSN += fmt.Sprintf(" %s=%s", setting, value) })
		var refused *SettingError
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, []string{setting, value}, []string{refused.Setting, refused.Found})
		_, err = onServer.tryOpen(t, dir, func(o *Options) { o.Postgres.DSN += fmt.Sprintf(" %s=%s", setting, value); o.NoSync = true })
		require.NoError(t, err)
	}
}

// HCL-031: no part of a connection string is in a message.
func TestPostgresHidesItsConnectionString(t *testing.T) {
	for _, dsn := range []string{
		"postgres://ann:" + canary + "@127.0.0.1:1/x?sslmode=disable", "host=/nowhere password=" + canary, "postgres://ann:" + canary + "%zz@[",
	} {
		_, err := Open(context.Background(), Options{Postgres: &Postgres{DSN: dsn, Host: "a"}})
		require.Error(t, err)
		assert.NotContains(t, err.Error(), canary)
	}
}

// JRN-001, JRN-030: the schema refuses changes, and what was changed all the same is
// found.
func TestPostgresVerifies(t *testing.T) {
	dir := onServer.filled(t)
	for _, text := range []string{
		"UPDATE records SET body = body", "DELETE FROM records WHERE run = 1 AND seq = 2", "TRUNCATE records",
		"UPDATE content SET size = 1", "DELETE FROM content", "TRUNCATE content", "DELETE FROM runs", "TRUNCATE runs",
		"UPDATE runs SET id = id || 'x'",
	} {
		err := server(t).Exec(context.Background(), schemaNamed(t, dir), text)
		assert.ErrorContains(t, err, "append-only", text)
	}
	onServer.tamper(t, dir)
	for name, row := range map[string]struct {
		change, back string
		want         Damage // What and Hash are not compared
	}{
		"record": {
			"UPDATE records SET body = body || ' '::bytea WHERE run = 1 AND seq = 2",
			"UPDATE records SET body = substring(body FOR length(body) - 1) WHERE run = 1 AND seq = 2", Damage{Run: "run_1", Seq: 2},
		},
		"gap": {"UPDATE records SET seq = -2 WHERE run = 1 AND seq = 2", "UPDATE records SET seq = 2 WHERE run = 1 AND seq = -2",
			Damage{Run: "run_1", Seq: 2}},
		"status":     {"UPDATE runs SET state = 'failed' WHERE n = 1", "UPDATE runs SET state = 'completed' WHERE n = 1", Damage{Run: "run_1"}},
		"value":      {"UPDATE content SET size = size + 1 WHERE n = 1", "UPDATE content SET size = size - 1 WHERE n = 1", Damage{Run: "run_1", Seq: 1}},
		"lost value": {"UPDATE content SET n = -n WHERE n = 2", "UPDATE content SET n = -n WHERE n = -2", Damage{Run: "run_1", Seq: 3}},
	} {
		operate(t, dir, row.change)
		s := onServer.openAt(t, dir)
		all, err := s.VerifyAll(context.Background())
		require.NoError(t, err)
		if assert.Len(t, all, 1, name) {
			assert.Equal(t, []any{row.want.Run, row.want.Seq}, []any{all[0].Run, all[0].Seq}, name)
		}
		require.NoError(t, s.Close())
		operate(t, dir, row.back)
	}
	operate(t, dir, "UPDATE records SET seq = -2 WHERE run = 3 AND seq = 2")
	_, err := onServer.tryOpen(t, dir)
	typed(t, err, "journal/damaged")
}

// JRN-020: values of every size are in rows, without files beside the database.
func TestPostgresKeepsLargeValues(t *testing.T) {
	dir := t.TempDir()
	s := onServer.openAt(t, dir)
	sc := newScript("run_1")
	big := edn.Text(strings.Repeat("\u00e4\x00b ", 4<<20))
	appendAll(t, s, sc.accepted(big), sc.finished(large(2)))
	syncRun(t, s, "run_1")
	s.Drop("run_1")
	require.NoError(t, s.Verify(context.Background(), "run_1"))
	v, err := s.Value(context.Background(), edn.Hash(big))
	require.NoError(t, err)
	assert.True(t, edn.Equal(big, v))
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	assert.Empty(t, files)
}

// A text that PostgreSQL cannot keep as one is kept as bytes, or rejected without harm
// to others.
func TestPostgresKeepsZeroCharacters(t *testing.T) {
	s, ctx := onServer.openAt(t, t.TempDir()), context.Background()
	fillSession(t, s)
	said := []session.Turn{{Role: session.RoleUser, Text: "a\x00b", Run: "run_1", At: start}}
	require.Nil(t, sessionsOf(s).Append(ctx, session.Identity{ID: aRef.ID}, said))
	_, err := sessionsOf(s).Open(ctx, ann, session.Ref{ID: "s-2"}, edn.MustMap(edn.K("summary"), edn.Text("c\x00d")))
	require.Nil(t, err)
	turns, failed := s.Sessions().Turns(ctx, aRef.ID, 1)
	require.NoError(t, failed)
	require.Len(t, turns, 1)
	said[0].N, said[0].Text = turns[0].N, "a\ufffdb" // models do not accept the character
	assert.Equal(t, said, turns)
	kept, _, failed := s.Sessions().Session(ctx, "s-2")
	require.NoError(t, failed)
	assert.True(t, edn.Equal(edn.Text("c\x00d"), kept.Notes.Key("summary")))

	_, failed = s.Runs(ctx, Filter{Principal: "a\x00"})
	typed(t, failed, "invalid-request")
	bad, good := newScript("run_1"), newScript("run_2")
	first := bad.accepted(nothing)
	first.Body.(*journal.RunAccepted).Principal = "a\x00b"
	appendAll(t, s, first, good.accepted(nothing))
	typed(t, s.Sync(ctx, "run_1"), "invalid-request")
	require.NoError(t, s.Sync(ctx, "run_2"))
	require.NoError(t, s.Err())
}

// relay is a server that passes on what a store and its server say, and can cut it.
type relay struct {
	dir string
	to  string
	at  net.Listener

	mu    sync.Mutex
	cut   string // what is not passed on next: "request" or "reply" of the writer; "all"
	conns map[net.Conn]bool
	done  sync.WaitGroup
}

func newRelay(t testing.TB) *relay {
	r := &relay{dir: t.TempDir(), to: server(t).Socket(), conns: map[net.Conn]bool{}}
	r.open(t)
	t.Cleanup(func() { r.close("all"); r.done.Wait() })
	return r
}

func (r *relay) open(t testing.TB) {
	at, err := net.Listen("unix", filepath.Join(r.dir, ".s.PGSQL.5432"))
	require.NoError(t, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at, r.cut = at, ""
	r.done.Go(func() {
		for {
			from, err := at.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("unix", r.to)
			if err != nil {
				_ = from.Close()
				continue
			}
			r.mu.Lock()
			r.conns[from] = true
			r.mu.Unlock()
			r.done.Go(func() { r.pass(from, to, "request") })
			r.done.Go(func() { r.pass(to, from, "reply") })
		}
	})
}

// close ends the connections of stores, and with "all" the relay.
func (r *relay) close(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if what == "all" {
		_ = r.at.Close()
	}
	for c := range r.conns {
		_ = c.Close()
		delete(r.conns, c)
	}
}

// lose makes the relay end the connection in place of the next request or reply.
func (r *relay) lose(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = what
}

func (r *relay) pass(from, to net.Conn, what string) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		r.mu.Lock()
		lost := r.cut == what
		if lost {
			r.cut = ""
		}
		r.mu.Unlock()
		if lost {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// JRN-005, LED-002: a commit whose connection is lost before or after it is made once:
// its records, costs and session variables are there and not doubled.
func TestPostgresCommitsOnce(t *testing.T) {
	for _, lost := range []string{"request", "reply"} {
		t.Run(lost, func(t *testing.T) {
			ctx, dir, r := context.Background(), t.TempDir(), newRelay(t)
			begins, commits, every := 0, 0, 1000
			var mu sync.Mutex
			s := onServer.openAt(t, dir, func(o *Options) {
				o.Postgres.DSN = server(t).DSN(schemaNamed(t, dir), r.dir)
				o.Faults.Before = func(op string) error {
					mu.Lock()
					defer mu.Unlock()
					switch op {
					case "begin":
						begins++
					case "commit":
						if commits++; commits%every == 0 {
							r.lose(lost)
						}
					}
					return nil
				}
			})
			l := keptLedger(t, s, now)
			fillSession(t, s)
			mu.Lock()
			begins, commits, every = 0, 0, 3
			mu.Unlock()
			const runs = 12
			for i := range runs {
				run := fmt.Sprintf("run_%d", i)
				appendAll(t, s, newScript(run).spend(t, l, lasting(budget.Day), usd("0.25"))...)
				require.NoError(t, s.Sync(ctx, run))
				require.NoError(t, l.Adjust(ctx, lasting(budget.Day)[1], budget.Adjustment{Charge: usd("0.5")}))
				require.Nil(t, sessionsOf(s).Append(ctx, session.Identity{ID: aRef.ID}, []session.Turn{{Role: session.RoleUser, Text: run, Run: run, At: start}}))
			}
			mu.Lock()
			assert.Greater(t, begins, runs*3+runs/2, "some were begun again")
			mu.Unlock()
			require.NoError(t, s.Err())
			damage, err := s.VerifyAll(ctx)
			require.NoError(t, err)
			assert.Empty(t, damage)
			turns, err := s.Sessions().Turns(ctx, aRef.ID, 100)
			require.NoError(t, err)
			assert.Len(t, turns, 1+runs)
			require.NoError(t, s.Close())
			assert.Equal(t, []string{
				"this hosttotal used {:attempts 12 :usd 3M} reserved {} granted {}",
				"user uid/7day used {:attempts 24 :usd 9M} reserved {} granted {}",
			}, figures(t, keptLedger(t, onServer.openAt(t, dir), now), lasting(budget.Day)))
		})
	}
}

// JRN-005: a connection that is lost for longer than the grace is a failure of the
// journal; what was acknowledged is there.
func TestPostgresGoneForGood(t *testing.T) {
	ctx, dir, r := context.Background(), t.TempDir(), newRelay(t)
	s := onServer.openAt(t, dir, func(o *Options) {
		o.Postgres.DSN, o.Postgres.Grace = server(t).DSN(schemaNamed(t, dir), r.dir), 200*time.Millisecond
	})
	sc := newScript("run_1")
	appendAll(t, s, sc.accepted(nothing))
	require.NoError(t, s.Sync(ctx, "run_1"))
	r.close("all")
	appendAll(t, s, sc.record(&journal.CancelRequested{By: "a"}))
	typed(t, s.Sync(ctx, "run_1"), "journal/unavailable")
	<-s.Failed()
	typed(t, s.Append(ctx, sc.record(&journal.CancelRequested{By: "b"})), "journal/unavailable")
	require.NoError(t, s.Close())
	s = onServer.openAt(t, dir)
	stored, err := s.Bytes(ctx, "run_1", 0, 10)
	require.NoError(t, err)
	assert.Len(t, stored, 1)
}

// JRN-005: a crash and restart of the server is not a failure of the journal, and no
// acknowledged record is lost.
func TestPostgresRestarts(t *testing.T) {
	ctx := context.Background()
	s := onServer.openAt(t, t.TempDir(), func(o *Options) { o.Postgres.Grace = 5 * time.Minute }) // of a busy machine
	var done sync.WaitGroup
	restarted := make(chan struct{})
	acknowledged := make([]int, 4)
	for n := range acknowledged {
		done.Go(func() {
			run := fmt.Sprintf("run_%d", n)
			sc := newScript(run)
			assert.NoError(t, s.Append(ctx, sc.accepted(nothing)))
			for over := 0; over < 3; {
				select {
				case <-restarted:
					over++
				default:
				}
				for _, rec := range sc.step(textOf(n, 300), textOf(sc.seq, 300)) {
					assert.NoError(t, s.Append(ctx, rec))
				}
				if !assert.NoError(t, s.Sync(ctx, run)) {
					return
				}
				acknowledged[n] = sc.seq
			}
		})
	}
	for range 2 {
		assert.NoError(t, server(t).Restart())
	}
	close(restarted)
	done.Wait()
	require.NoError(t, s.Err())
	damage, err := s.VerifyAll(ctx)
	require.NoError(t, err)
	assert.Empty(t, damage)
	for n, seq := range acknowledged {
		run, err := s.Run(ctx, fmt.Sprintf("run_%d", n))
		require.NoError(t, err)
		assert.Equal(t, seq, run.Records)
	}
}

// readAll returns the records of a cursor to its end.
func readAll(t testing.TB, c *journal.Cursor) (out []journal.Record) {
	t.Helper()
	for {
		rec, ok, err := c.Next(context.Background())
		require.NoError(t, err)
		if !ok {
			return out
		}
		out = append(out, rec)
	}
}
