package history

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// recordedAt is when the first run of the tests was accepted.
var recordedAt = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// runScript writes the records of one run with one node.
type runScript struct {
	t   testing.TB
	to  *store.Store
	run string
	at  time.Time

	seq, epoch     int
	principal, key string // by default uid/7, and none
}

func (s *runScript) put(bodies ...journal.Body) {
	s.t.Helper()
	for _, body := range bodies {
		s.seq++
		s.at = s.at.Add(time.Second)
		rec := journal.Record{Run: s.run, Seq: s.seq, At: s.at, Epoch: s.epoch, Body: body}
		switch body.(type) {
		case *journal.InterruptOpened, *journal.InterruptAnswered, *journal.AttemptChunk, *journal.NodeResolved, *journal.AttemptStarted, *journal.AttemptFinished, *journal.NodeCommitted, *journal.NodeFailed:
			rec.Path, rec.Node = edn.Vector(edn.Int(0)), "a"
		}
		assert.NoError(s.t, s.to.Append(context.Background(), rec))
	}
	assert.NoError(s.t, s.to.Sync(context.Background(), s.run))
}

// begin writes the records of a run up to its first attempt.
func (s *runScript) begin(intent string) {
	request := edn.MustMap(edn.K("input"), edn.Text("for "+s.run))
	sum, nothing := edn.Hash(edn.Int(1)), edn.MustMap()
	s.put(
		&journal.RunAccepted{
			Key: s.key, Principal: cmp.Or(s.principal, "uid/7"), PrincipalType: "local", Operation: "act/run", Intent: intent,
			Request: journal.RefTo(request), Fingerprint: journal.RefTo(request), ResponseType: "value", Class: "sync",
			DeadlineAt: s.at.Add(time.Hour), Config: sum, Evaluator: 1, Trace: nothing,
		},
		&journal.RunStarted{Host: "here", Boot: "1", Config: sum},
		&journal.NodeResolved{Op: "call", Intent: intent, Candidates: []journal.Candidate{{CapID: "a/one"}}, Policy: "declared", Strategy: "cascade"},
		&journal.AttemptStarted{Attempt: 1, CapID: "a/one", CapVersion: "1.0.0", Request: journal.RefTo(request),
			Effects: []string{"none"}, Recovery: "none", EffectKey: sum, Budget: nothing},
	)
}

// complete ends the run with an answer.
func (s *runScript) complete(out edn.Value) {
	s.put(
		&journal.AttemptFinished{Attempt: 1, Outcome: "ok", Latency: 2 * time.Millisecond, Usage: edn.MustRead(`{:cost-usd 0.25M}`),
			Result: journal.RefTo(out), ResultType: "value"},
		&journal.NodeCommitted{Value: journal.RefTo(out), CapID: "a/one", Attempt: 1},
		&journal.RunFinished{Status: "completed", Response: journal.RefTo(edn.MustMap(edn.K("result"), out)), Executed: true,
			Latency: 7 * time.Millisecond, Totals: edn.MustRead(`{:operations {} :attempts {:total 1 :cost-usd 0.25M}}`)},
	)
}

var wholeRun = httpapi.RunParts{Response: true, Transcript: true}

const (
	doneRun = "run_01AAAAAAAAAAAAAAAAAAAAAAAA"
	lostRun = "run_01ABBBBBBBBBBBBBBBBBBBBBBB"
	openRun = "run_02CCCCCCCCCCCCCCCCCCCCCCCC"
)

// recorded returns the file of a store with a completed, a failed and an open run, the
// latter resumed once.
func recorded(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ferment.db")
	s, err := store.Open(t.Context(), store.Options{Path: path, Limits: store.Limits{MinFree: 1}})
	require.NoError(t, err)
	done := &runScript{t: t, to: s, run: doneRun, at: recordedAt, epoch: 1}
	done.begin("a/good")
	done.complete(edn.Text(strings.Repeat("answer ", 100)))
	lost := &runScript{t: t, to: s, run: lostRun, at: recordedAt.Add(time.Hour), epoch: 1}
	lost.begin("a/bad")
	failure := contract.Errorf("runtime/invoke-failed", "no").WithHint("ask again")
	lost.put(
		&journal.AttemptFinished{Attempt: 1, Outcome: "error", Usage: edn.MustMap(), Err: failure},
		&journal.NodeFailed{Err: failure, Attempts: 1},
		&journal.RunFinished{Status: "failed", Response: journal.RefTo(edn.MustMap()), Executed: true,
			Totals: edn.MustRead(`{:operations {} :attempts {}}`), Err: failure},
	)
	unfinished := &runScript{t: t, to: s, run: openRun, at: recordedAt.Add(2 * time.Hour), epoch: 1}
	unfinished.begin("a/good")
	unfinished.epoch = 2
	unfinished.put(&journal.RunResumed{Host: "here", Boot: "2", Config: edn.Hash(edn.Int(2)), Was: edn.Hash(edn.Int(1)), Why: journal.ResumedCrash})
	require.NoError(t, s.Close())
	return path
}

// open opens the store of a file.
func open(t *testing.T, path string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Path: path, Limits: store.Limits{MinFree: 1}})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// runsOf returns the recorded runs of a file without a daemon.
func runsOf(t *testing.T, path string) *Runs {
	t.Helper()
	return &Runs{Store: open(t, path)}
}

func keysOf(list edn.Value, key string) (out []string) {
	for v := range list.Elems() {
		out = append(out, strings.Trim(v.Key(key).String(), `":`))
	}
	return out
}

func typeOf(e *contract.Error) string {
	if e == nil {
		return ""
	}
	return e.Type
}

// The statistics count runs by status, intent and error type, attempts by capability and
// outcome, over a period and for one owner; what a run still does is counted as open.
func TestCounts(t *testing.T) {
	j := runsOf(t, recorded(t))
	count := func(runs httpapi.Runs, f httpapi.RunFilter) edn.Value {
		v, err := runs.Statistics(t.Context(), f)
		require.Nil(t, err, "%v", err)
		return v
	}
	all := count(j, httpapi.RunFilter{Since: recordedAt, Until: recordedAt.Add(24 * time.Hour)})
	for path, want := range map[string]string{
		"runs":               `{:by-status {:completed 1 :failed 1 :open 1} :cost-usd 0.25M :latency-ms {:p50 0 :p95 7} :total 3}`,
		"failures":           `{:runtime/invoke-failed 1}`,
		"operations":         `{:committed 1 :failed 1 :running 1}`,
		"attempts":           `{:by-outcome {:error 1 :ok 1 :open 1} :cost-usd 0.25M :latency-ms {:p50 0 :p95 2} :total 3}`,
		"gates":              `{}`,
		"since":              `#inst "2026-11-20T09:00:00.000Z"`,
		"until":              `#inst "2026-11-21T09:00:00.000Z"`,
		"cache":              `nil`,
		"intents a/bad":      `{:by-status {:failed 1} :latency-ms {:p50 0 :p95 0} :total 1}`,
		"intents a/good":     `{:by-status {:completed 1 :open 1} :cost-usd 0.25M :latency-ms {:p50 7 :p95 7} :total 2}`,
		"capabilities a/one": `{:by-outcome {:error 1 :ok 1 :open 1} :cost-usd 0.25M :latency-ms {:p50 0 :p95 2} :total 3}`,
	} {
		v := all
		for _, key := range strings.Fields(path) {
			v = v.Key(key)
		}
		assert.Equal(t, want, v.String(), path)
	}
	total := func(v edn.Value) string { return v.Key("runs").Key("total").String() }
	assert.Equal(t, "2", total(count(j, httpapi.RunFilter{Since: recordedAt, Until: recordedAt.Add(24 * time.Hour), Intent: "a/good"})))
	assert.Equal(t, "1", total(count(j, httpapi.RunFilter{Since: recordedAt, Until: recordedAt.Add(time.Hour)})))
	assert.Equal(t, "{:open 1}", count(j, httpapi.RunFilter{}).Key("runs").Key("by-status").String(), "the last 24 hours: one goes on")
	late := count(j, httpapi.RunFilter{Since: recordedAt.Add(4 * time.Second), Until: recordedAt.Add(24 * time.Hour)})
	assert.Equal(t, "3", total(late), "a run counts when it ends")
	assert.Equal(t, "3", total(count(j.OwnedBy("uid/7"), httpapi.RunFilter{Since: recordedAt, Until: recordedAt.Add(24 * time.Hour)})))
	assert.Equal(t, "0", total(count(j.OwnedBy("ann"), httpapi.RunFilter{Since: recordedAt, Until: recordedAt.Add(24 * time.Hour)})), "AUTH-012")
	assert.Equal(t, "0", total(count(j.OwnedBy("ann"), httpapi.RunFilter{Principal: "uid/7", Since: recordedAt, Until: recordedAt.Add(24 * time.Hour)})))
}

// The open questions of all runs, for their owner; none of runs that have ended.
func TestListsInterrupts(t *testing.T) {
	j, script := owners(t)
	ask := func(run, principal string, more ...journal.Body) {
		s := script(run, principal)
		s.begin("a/ask")
		s.put(append([]journal.Body{&journal.InterruptOpened{Interrupt: "0-1-1", Attempt: 1, Question: journal.RefTo(edn.Text("may I?")), Schema: "res/any"}}, more...)...)
	}
	ask("run_04AAAAAAAAAAAAAAAAAAAAAAAA", "ann")
	ask("run_04BBBBBBBBBBBBBBBBBBBBBBBB", "bob")
	ask("run_04CCCCCCCCCCCCCCCCCCCCCCCC", "ann", &journal.InterruptAnswered{Interrupt: "0-1-1", By: "ann", Answer: journal.RefTo(edn.Int(1))})
	list := func(runs httpapi.Runs) []string {
		v, err := runs.Interrupts(t.Context())
		require.Nil(t, err, "%v", err)
		for i := range v.Key("interrupts").Elems() {
			assert.Equal(t, `"0-1-1" :a/ask "may I?"`, i.Key("interrupt").String()+" "+i.Key("intent").String()+" "+i.Key("question").String())
		}
		return keysOf(v.Key("interrupts"), "run")
	}
	assert.Equal(t, []string{"run_04BBBBBBBBBBBBBBBBBBBBBBBB", "run_04AAAAAAAAAAAAAAAAAAAAAAAA"}, list(j))
	assert.Equal(t, []string{"run_04AAAAAAAAAAAAAAAAAAAAAAAA"}, list(j.OwnedBy("ann")))
	assert.Empty(t, list(j.OwnedBy("eve")))
}

// HTTP-006, as far as a list selects by status, intent, time and number.
func TestLists(t *testing.T) {
	j := runsOf(t, recorded(t))
	for _, row := range []struct {
		filter httpapi.RunFilter
		want   []string
		more   bool
	}{
		{httpapi.RunFilter{}, []string{openRun, lostRun, doneRun}, false},
		{httpapi.RunFilter{Limit: 1}, []string{openRun}, true},
		{httpapi.RunFilter{Limit: 3}, []string{openRun, lostRun, doneRun}, false},
		{httpapi.RunFilter{Status: "failed"}, []string{lostRun}, false},
		{httpapi.RunFilter{Status: "open"}, []string{openRun}, false},
		{httpapi.RunFilter{Status: "running"}, nil, false},
		{httpapi.RunFilter{Intent: "a/good"}, []string{openRun, doneRun}, false},
		{httpapi.RunFilter{Since: recordedAt.Add(30 * time.Minute)}, []string{openRun, lostRun}, false},
	} {
		got, err := j.List(t.Context(), row.filter)
		require.Nil(t, err)
		assert.Equal(t, row.want, keysOf(got.Key("runs"), "run"), "%+v", row.filter)
		assert.Equal(t, row.more, got.Key("more?").Truthy(), "%+v", row.filter)
	}
	got, err := j.List(t.Context(), httpapi.RunFilter{Status: "completed"})
	require.Nil(t, err)
	only, _ := got.Key("runs").Nth(0)
	want := edn.MustRead(`{:run "` + doneRun + `" :status :completed :intent :a/good :principal "uid/7" :epoch 1 :records 7
		:accepted-at #inst "2026-11-20T09:00:01Z" :finished-at #inst "2026-11-20T09:00:07Z" :latency-ms 7 :cost-usd 0.25M}`)
	assert.Equal(t, want.String(), only.String())
}

func TestNamesRuns(t *testing.T) {
	j := runsOf(t, recorded(t))
	for name, want := range map[string]string{
		doneRun: doneRun, "last": openRun, "run_01AA": doneRun, "02c": openRun, "01ab": lostRun,
	} {
		got, err := j.find(t.Context(), name)
		require.Nil(t, err, name)
		assert.Equal(t, want, got.ID, name)
	}
	for name, want := range map[string]string{"run_01A": "invalid-request", "run_03": "run/not-found", "%": "run/not-found"} {
		_, err := j.find(t.Context(), name)
		assert.Equal(t, want, typeOf(err), name)
	}
}

// AUTH-012: names are those of the runs in the caller's reach.
func TestNamesRunsInReach(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ferment.db")
	s, err := store.Open(t.Context(), store.Options{Path: path, Limits: store.Limits{MinFree: 1}})
	require.NoError(t, err)
	for id, who := range map[string]string{doneRun: "ann", lostRun: "bob", openRun: "eva", "run_02" + doneRun[6:]: "eva"} {
		(&runScript{t: t, to: s, run: id, at: recordedAt, epoch: 1, principal: who}).begin("a/good")
	}
	require.NoError(t, s.Close())
	j := runsOf(t, path)
	for who, own := range map[string]string{"ann": doneRun, "bob": lostRun} {
		for _, name := range []string{"last", "run_01A", "01a", own} {
			got, err := j.OwnedBy(who).(*Runs).find(t.Context(), name)
			require.Nil(t, err, "%s: %s", who, name)
			assert.Equal(t, own, got.ID, "%s: %s", who, name)
		}
	}
	for _, name := range []string{"last", "run_01A", doneRun} {
		_, failed := j.OwnedBy("eve").(*Runs).find(t.Context(), name)
		assert.Equal(t, "run/not-found", typeOf(failed), name)
	}
	for _, several := range []*Runs{j, j.OwnedBy("eva").(*Runs)} {
		_, failed := several.find(t.Context(), "run_0")
		assert.Equal(t, "invalid-request", typeOf(failed))
	}
}

func TestShows(t *testing.T) {
	j := runsOf(t, recorded(t))
	done, err := j.Show(t.Context(), doneRun, wholeRun)
	require.Nil(t, err)
	node, _ := done.Key("nodes").Nth(0)
	assert.Equal(t, ":committed", node.Key("state").String())
	attempt, _ := node.Key("attempts").Nth(0)
	assert.Equal(t, edn.MustRead(`{:attempt 1 :cap/id :a/one :outcome :ok :latency-ms 2 :cost-usd 0.25M}`).String(), attempt.String())
	assert.Equal(t, 1, done.Key("transcript").Len())
	assert.True(t, done.Key("response").HasKey("result"))
	assert.Equal(t, 1, done.Key("epochs").Len())
	brief, err := j.Show(t.Context(), doneRun, httpapi.RunParts{})
	require.Nil(t, err)
	assert.Equal(t, done.Dissoc(edn.K("transcript")).Dissoc(edn.K("response")).String(), brief.String())

	lost, err := j.Show(t.Context(), lostRun, httpapi.RunParts{})
	require.Nil(t, err)
	assert.Equal(t, `"ask again"`, lost.Key("error").Key("hint").String())
	assert.Equal(t, ":runtime/invoke-failed", lost.Key("run").Key("error/type").String())

	open, err := j.Show(t.Context(), "last", httpapi.RunParts{})
	require.Nil(t, err)
	resumed, _ := open.Key("epochs").Nth(1)
	assert.Equal(t, ":crash", resumed.Key("why").String())
	assert.Equal(t, "2", resumed.Key("epoch").String())
	assert.Equal(t, ":open", open.Key("run").Key("status").String())
}

func TestPages(t *testing.T) {
	j := runsOf(t, recorded(t))
	var seqs []string
	for after, more := 2, true; more; {
		page, err := j.Records(t.Context(), httpapi.RecordsQuery{Run: doneRun, After: after, Limit: 2, Values: true})
		require.Nil(t, err)
		for rec := range page.Key("records").Elems() {
			for hash, v := range rec.Key("values").Entries() {
				assert.Equal(t, fmt.Sprintf("%q", edn.Hash(v)), hash.String())
			}
		}
		seqs = append(seqs, keysOf(page.Key("records"), "seq")...)
		last, _ := page.Key("last").AsInt()
		after, more = int(last), page.Key("more?").Truthy()
	}
	assert.Equal(t, []string{"3", "4", "5", "6", "7"}, seqs)
	beyond, err := j.Records(t.Context(), httpapi.RecordsQuery{Run: doneRun, After: 9})
	require.Nil(t, err)
	assert.Zero(t, beyond.Key("records").Len())
	assert.False(t, beyond.Key("more?").Truthy())
}

// JRN-001: a verification names the record that was changed, and goes on with
// the other runs; package store tests every kind of change.
func TestVerifies(t *testing.T) {
	path := recorded(t)
	sound, err := store.Open(t.Context(), store.Options{Path: path})
	require.NoError(t, err)
	whole, failed := (&Runs{Store: sound}).Verify(t.Context(), "")
	require.Nil(t, failed)
	assert.Equal(t, `{:damaged [] :ok? true :runs 3 :sessions 0}`, whole.String())
	require.NoError(t, sound.Close())

	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	_, err = db.Exec(`DROP TRIGGER records_update; UPDATE records SET body = replace(body, 'uid/7', 'uid/8') WHERE id & 4294967295 = 1 AND id >> 32 = 1`)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	j := runsOf(t, path)
	for name, runs := range map[string]string{"": "3", doneRun: "1"} {
		got, failed := j.Verify(t.Context(), name)
		require.Nil(t, failed)
		damage, _ := got.Key("damaged").Nth(0)
		assert.Equal(t, 1, got.Key("damaged").Len())
		assert.Equal(t, `"`+doneRun+`"`, damage.Key("run").String())
		assert.Equal(t, "1", damage.Key("seq").String())
		assert.Equal(t, runs, got.Key("runs").String())
		assert.False(t, got.Key("ok?").Truthy())
	}
	healthy, failed := j.Verify(t.Context(), lostRun)
	require.Nil(t, failed)
	assert.True(t, healthy.Key("ok?").Truthy())
}

// A run that grows while it is verified is not damaged.
func TestVerifiesRunInProgress(t *testing.T) {
	s := open(t, recorded(t))
	growing := &runScript{t: t, to: s, run: "run_04EEEEEEEEEEEEEEEEEEEEEEEE", at: recordedAt, epoch: 1}
	growing.begin("a/good")
	over := make(chan struct{})
	go func() {
		defer close(over)
		for range 200 {
			growing.put(&journal.CancelRequested{By: "a test"})
		}
	}()
	j := &Runs{Store: s}
	for {
		got, failed := j.Verify(t.Context(), growing.run)
		require.Nil(t, failed)
		require.True(t, got.Key("ok?").Truthy(), "%s", got)
		select {
		case <-over:
			return
		default:
		}
	}
}

// JRN-053: a run is the same after export and import, whatever its size. That
// a changed file is rejected is proved in package store.
func TestMovesRuns(t *testing.T) {
	s := open(t, recorded(t))
	const bigRun = "run_03DDDDDDDDDDDDDDDDDDDDDDDD"
	big := &runScript{t: t, to: s, run: bigRun, at: recordedAt, epoch: 1}
	big.begin("a/big")
	big.complete(edn.Text(strings.Repeat("aé", 2*pageBytes/3))) // parts would end within a character
	j := &Runs{Store: s}

	var file strings.Builder
	parts := 0
	for next := edn.Int(0); !next.IsNil(); parts++ {
		offset, _ := next.AsInt()
		part, failed := j.Export(t.Context(), bigRun, offset)
		require.Nil(t, failed)
		text, _ := part.Key("text").AsString()
		file.WriteString(text)
		next = part.Key("next")
	}
	assert.Greater(t, parts, 1)
	path := filepath.Join(t.TempDir(), "run.edn")
	require.NoError(t, os.WriteFile(path, []byte(file.String()), 0o600))

	there := runsOf(t, filepath.Join(t.TempDir(), "ferment.db"))
	got, failed := there.Import(t.Context(), path)
	require.Nil(t, failed)
	assert.True(t, got.Key("imported?").Truthy())
	here, failed := j.Show(t.Context(), bigRun, wholeRun)
	require.Nil(t, failed)
	imported, failed := there.Show(t.Context(), "last", wholeRun)
	require.Nil(t, failed)
	assert.Equal(t, edn.Hash(here.Dissoc(edn.K("run"))), edn.Hash(imported.Dissoc(edn.K("run"))))
	verified, failed := there.Verify(t.Context(), "")
	require.Nil(t, failed)
	assert.True(t, verified.Key("ok?").Truthy())
	_, failed = there.Import(t.Context(), path)
	assert.Equal(t, "import/conflict", typeOf(failed))
	assert.Contains(t, failed.Message, "recorded here already")
	said := map[string]edn.Value{"a": edn.MustRead(`{:plugin/name "first"}`)}
	file.WriteString(store.ExportedPlugins(said))
	_, err := ReplayFile(t.Context(), []byte(file.String()), func(recorded map[string]edn.Value) (*setup.Loaded, error) {
		assert.Equal(t, fmt.Sprint(said), fmt.Sprint(recorded))
		return nil, contract.Errorf("config/missing", "no configuration")
	})
	assert.ErrorIs(t, err, contract.OfType("config/missing"))
	cut := filepath.Join(t.TempDir(), "cut.edn")
	require.NoError(t, os.WriteFile(cut, []byte(file.String()[:pageBytes]), 0o600))
	_, failed = j.Import(t.Context(), cut)
	assert.Equal(t, "import/invalid", typeOf(failed))
	_, failed = there.Import(t.Context(), path+"x")
	assert.Equal(t, "invalid-request", typeOf(failed))

	var fenced atomic.Bool
	third, err := store.Open(t.Context(), store.Options{
		Path: filepath.Join(t.TempDir(), "ferment.db"),
		Faults: store.Faults{Before: func(string) error {
			if fenced.Load() {
				return store.ErrFenced
			}
			return nil
		}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = third.Close() })
	fenced.Store(true)
	_, failed = (&Runs{Store: third}).Import(t.Context(), path)
	assert.Equal(t, "journal/fenced", typeOf(failed), "another process has the database: the run is not recorded")
}

// JRN-060, JRN-061, as far as they say what an operator changes: pins, and the
// deletion of values, which keeps records. Package store proves the rest.
func TestPinsAndPurges(t *testing.T) {
	j := runsOf(t, recorded(t))
	for _, on := range []bool{true, false} {
		got, err := j.Pin(t.Context(), doneRun, on)
		require.Nil(t, err)
		assert.Equal(t, on, got.Key("pinned?").Truthy())
	}
	plan, err := j.Purge(t.Context(), doneRun, true)
	require.Nil(t, err)
	assert.False(t, plan.HasKey("purged-at"))
	before, err := j.Show(t.Context(), doneRun, wholeRun)
	require.Nil(t, err)
	require.False(t, before.Key("response").IsNil())
	purged, err := j.Purge(t.Context(), doneRun, false)
	require.Nil(t, err)
	assert.True(t, purged.HasKey("purged-at"))
	after, err := j.Show(t.Context(), doneRun, wholeRun)
	require.Nil(t, err)
	assert.True(t, after.Key("response").IsNil())
	assert.Equal(t, before.Key("nodes").String(), after.Key("nodes").String())
	verified, err := j.Verify(t.Context(), doneRun)
	require.Nil(t, err)
	assert.True(t, verified.Key("ok?").Truthy())

	_, err = j.Purge(t.Context(), openRun, true)
	assert.Equal(t, "queue/invalid-transition", typeOf(err))
	_, err = j.Export(t.Context(), openRun, 0)
	assert.Equal(t, "queue/invalid-transition", typeOf(err))
	_, err = j.Cancel(t.Context(), openRun, httpapi.Cancellation{})
	assert.Equal(t, "queue/invalid-transition", typeOf(err))
	final, err := j.Cancel(t.Context(), doneRun, httpapi.Cancellation{})
	require.Nil(t, err)
	assert.False(t, final.Key("cancel/accepted?").Truthy())
}

// owners writes one run of each of two callers, and returns the journal as a
// daemon has it.
func owners(t *testing.T) (j *Runs, script func(run, principal string) *runScript) {
	t.Helper()
	j = runsOf(t, recorded(t))
	return j, func(run, principal string) *runScript {
		return &runScript{t: t, to: j.Store, run: run, at: recordedAt.Add(3 * time.Hour), epoch: 1, principal: principal}
	}
}

const aliceRun = "run_03DDDDDDDDDDDDDDDDDDDDDDDD"

// AUTH-012: the runs of others do not exist for a caller, whatever it asks for.
func TestOfOneOwner(t *testing.T) {
	all, script := owners(t)
	alice := script(aliceRun, "alice")
	alice.begin("a/good")
	alice.complete(edn.Text("x"))
	j := all.OwnedBy("alice")
	for name, tc := range map[string]struct {
		filter httpapi.RunFilter
		want   []string
	}{
		"all":          {httpapi.RunFilter{}, []string{aliceRun}},
		"own":          {httpapi.RunFilter{Principal: "alice"}, []string{aliceRun}},
		"others":       {httpapi.RunFilter{Principal: "uid/7"}, nil},
		"own cursor":   {httpapi.RunFilter{Before: aliceRun}, nil},
		"other status": {httpapi.RunFilter{Status: "open"}, nil},
	} {
		got, err := j.List(t.Context(), tc.filter)
		require.Nil(t, err, name)
		assert.Equal(t, tc.want, keysOf(got.Key("runs"), "run"), name)
	}
	_, err := j.List(t.Context(), httpapi.RunFilter{Before: doneRun})
	assert.Equal(t, "invalid-request", typeOf(err), "the cursor of another caller")
	answered := edn.Hash(edn.Text("x"))
	verified, err := j.Verify(t.Context(), "")
	require.Nil(t, err)
	assert.Equal(t, "1", verified.Key("runs").String())

	for name, do := range map[string]func(j httpapi.Runs, run string) *contract.Error{
		"show": func(j httpapi.Runs, run string) *contract.Error {
			_, err := j.Show(t.Context(), run, wholeRun)
			return err
		},
		"records": func(j httpapi.Runs, run string) *contract.Error {
			_, err := j.Records(t.Context(), httpapi.RecordsQuery{Run: run})
			return err
		},
		"watch": func(j httpapi.Runs, run string) *contract.Error {
			_, err := j.Watch(t.Context(), run, 0)
			return err
		},
		"verify": func(j httpapi.Runs, run string) *contract.Error { _, err := j.Verify(t.Context(), run); return err },
		"cancel": func(j httpapi.Runs, run string) *contract.Error {
			_, err := j.Cancel(t.Context(), run, httpapi.Cancellation{})
			return err
		},
		"pin": func(j httpapi.Runs, run string) *contract.Error { _, err := j.Pin(t.Context(), run, false); return err },
		"purge": func(j httpapi.Runs, run string) *contract.Error {
			_, err := j.Purge(t.Context(), run, true)
			return err
		},
		"export": func(j httpapi.Runs, run string) *contract.Error { _, err := j.Export(t.Context(), run, 0); return err },
		"value": func(j httpapi.Runs, run string) *contract.Error {
			_, err := j.Value(t.Context(), answered, run)
			return err
		},
	} {
		for _, run := range []string{doneRun, openRun, "run_01", "run_01AAAAAAAAAAAAAAAAAAAAAAAB"} {
			assert.Equal(t, "run/not-found", typeOf(do(j, run)), "%s %s", name, run)
		}
		assert.Empty(t, typeOf(do(j, aliceRun)), name)
		assert.Empty(t, typeOf(do(all, aliceRun)), name)
	}
}

// AUTH-012: a value is readable through the runs that name it: not as a part of one, not
// after the values of the run were purged, and by its hash alone only if the caller has
// such a run.
func TestValues(t *testing.T) {
	all, script := owners(t)
	alice := script(aliceRun, "alice")
	alice.begin("a/good")
	alice.complete(edn.Text("x"))
	shared, own := edn.Text(strings.Repeat("answer ", 100)), edn.Text("x")
	_, err := all.Pin(t.Context(), doneRun, true)
	require.Nil(t, err)
	value := func(j httpapi.Runs, v edn.Value, run string) string {
		got, err := j.Value(t.Context(), edn.Hash(v), run)
		if err != nil {
			return err.Type
		}
		assert.Equal(t, v.String(), got.String())
		return "ok"
	}
	j, uid := all.OwnedBy("alice"), all.OwnedBy("uid/7")
	assert.Equal(t, "ok", value(all, own, ""))
	assert.Equal(t, "ok", value(j, own, ""))
	assert.Equal(t, "ok", value(j, own, aliceRun))
	assert.Equal(t, "not-found", value(uid, own, ""))
	assert.Equal(t, "not-found", value(uid, own, doneRun))
	assert.Equal(t, "run/not-found", value(uid, own, aliceRun))
	assert.Equal(t, "not-found", value(j, shared, ""))
	assert.Equal(t, "not-found", value(j, edn.Text("nothing has it"), ""))
	// The value of a second run is stored once and belongs to both.
	again := script("run_03EEEEEEEEEEEEEEEEEEEEEEEE", "alice")
	again.begin("a/good")
	again.complete(shared)
	assert.Equal(t, "ok", value(j, shared, ""))
	assert.Equal(t, "ok", value(uid, shared, doneRun))
	_, err = all.Purge(t.Context(), doneRun, false)
	require.Nil(t, err)
	assert.Equal(t, "replay/values-purged", value(uid, shared, doneRun))
	assert.Equal(t, "not-found", value(uid, shared, ""))
	assert.Equal(t, "ok", value(j, shared, ""))
}

// HTTP-006: pages do not move when runs are added; a key selects the run of its
// principal.
func TestListsPages(t *testing.T) {
	j, script := owners(t)
	page := func(f httpapi.RunFilter) []string {
		t.Helper()
		got, err := j.List(t.Context(), f)
		require.Nil(t, err)
		return keysOf(got.Key("runs"), "run")
	}
	require.Equal(t, []string{openRun}, page(httpapi.RunFilter{Limit: 1}))
	s := script(aliceRun, "alice")
	s.key = act.KeyHash("alice", "k")
	s.begin("a/good")
	assert.Equal(t, []string{lostRun, doneRun}, page(httpapi.RunFilter{Limit: 2, Before: openRun}))
	assert.Empty(t, page(httpapi.RunFilter{Before: doneRun}))
	assert.Equal(t, []string{aliceRun}, page(httpapi.RunFilter{Principal: "alice", Key: "k"}))
	assert.Empty(t, page(httpapi.RunFilter{Principal: "uid/7", Key: "k"}))
	assert.Empty(t, page(httpapi.RunFilter{Principal: "alice", Key: "l"}))
	assert.Equal(t, []string{lostRun}, page(httpapi.RunFilter{
		Since: recordedAt.Add(30 * time.Minute), Until: recordedAt.Add(90 * time.Minute),
	}))
}

// seen collects the numbers and names of events.
func seen(t *testing.T, j httpapi.Runs, run string, after int) (seqs []int, names []string) {
	t.Helper()
	watch, err := j.Watch(t.Context(), run, after)
	require.Nil(t, err)
	require.NotNil(t, watch)
	require.NoError(t, watch(t.Context(), func(events []journal.Event) error {
		for _, e := range events {
			seqs, names = append(seqs, e.Seq), append(names, e.Name)
			if e.Attempt > 0 {
				assert.Equal(t, "a/one", e.CapID, "also of an attempt that began before the cursor")
			}
		}
		return nil
	}))
	return seqs, names
}

// RUN-040, RUN-041, RUN-044: a watcher of a run gets the events after its cursor,
// those that are recorded and those that follow.
func TestWatches(t *testing.T) {
	j, script := owners(t)
	seqs, names := seen(t, j, doneRun, 0)
	assert.Equal(t, []int{1, 2, 3, 4, 5, 6, 7}, seqs)
	assert.Equal(t, []string{"accepted", "started", "resolved", "attempt", "attempt", "commit", "finished"}, names)
	seqs, _ = seen(t, j, doneRun, 4)
	assert.Equal(t, []int{5, 6, 7}, seqs)
	final, err := j.Watch(t.Context(), doneRun, 7)
	require.Nil(t, err)
	assert.Nil(t, final, "there is nothing to wait for")
	for _, run := range []string{doneRun, openRun} {
		_, err = j.Watch(t.Context(), run, 8)
		assert.Equal(t, "stream/cursor-ahead", typeOf(err))
	}

	s := script(aliceRun, "alice")
	s.begin("a/good")
	var watchers sync.WaitGroup
	for after := range 5 {
		watchers.Go(func() {
			seqs, _ := seen(t, j, aliceRun, after)
			assert.Equal(t, []int{1, 2, 3, 4, 5, 6, 7}[after:], seqs)
		})
	}
	s.complete(edn.Text("x"))
	watchers.Wait()

	ctx, cancel := context.WithCancel(t.Context())
	watch, err := j.Watch(ctx, openRun, 0)
	require.Nil(t, err)
	require.ErrorIs(t, watch(ctx, func(events []journal.Event) error {
		if events[len(events)-1].Seq == 4 { // the last event; the run goes on
			cancel()
		}
		return nil
	}), context.Canceled)
	require.ErrorIs(t, watch(t.Context(), func([]journal.Event) error { return fs.ErrClosed }), fs.ErrClosed)
	watch, err = j.Watch(t.Context(), doneRun, 0)
	require.Nil(t, err)
	_, err = j.Purge(t.Context(), doneRun, false)
	require.Nil(t, err)
	for _, streamed := range []bool{false, true} { // JRN-061: a reader is told that the values were deleted meanwhile
		if streamed {
			s = script("run_03EEEEEEEEEEEEEEEEEEEEEEEE", "alice")
			s.begin("a/good")
			s.put(&journal.AttemptChunk{Attempt: 1, Value: journal.RefTo(edn.Text("a piece")), Visible: "chunk"})
			s.complete(edn.Text("x"))
			watch, err = j.Watch(t.Context(), s.run, 0)
			require.Nil(t, err)
			_, err = j.Purge(t.Context(), s.run, false)
			require.Nil(t, err)
		}
		failed := watch(t.Context(), func(events []journal.Event) error {
			for _, e := range events {
				assert.NotContains(t, []string{"chunk", "finished"}, e.Name)
			}
			return nil
		})
		require.ErrorIs(t, failed, contract.OfType("stream/gone"))
	}
	_, err = j.Watch(t.Context(), doneRun, 7)
	assert.Equal(t, "stream/gone", typeOf(err))
}

// RUN-043: a reader of a failed run gets its end, also if the run is continued while it reads.
func TestWatchesAFailedRunThatGoesOn(t *testing.T) {
	j, _ := owners(t)
	watch, err := j.Watch(t.Context(), lostRun, 3)
	require.Nil(t, err)
	again := &runScript{t: t, to: j.Store, run: lostRun, at: recordedAt.Add(2 * time.Hour), seq: 7, epoch: 2}
	again.put(&journal.RunResumed{Host: "here", Boot: "2", Config: edn.Hash(edn.Int(1)), Was: edn.Hash(edn.Int(1)), Why: journal.ResumedKey,
		DeadlineAt: recordedAt.Add(3 * time.Hour)})
	var names []string
	require.NoError(t, watch(t.Context(), func(events []journal.Event) error {
		for _, e := range events {
			names = append(names, e.Name)
		}
		return nil
	}))
	assert.Equal(t, []string{"attempt", "attempt", "failed", "finished"}, names)
}

// RUN-040: a finished run is read in pages.
func TestWatchesPages(t *testing.T) {
	j, script := owners(t)
	s := script(aliceRun, "alice")
	s.begin("a/good")
	for range 2 * pageRecords {
		s.put(&journal.CancelRequested{By: "a"})
	}
	s.complete(edn.Text("x"))
	j.Store.Drop(aliceRun)
	seqs, _ := seen(t, j, aliceRun, 3)
	require.Len(t, seqs, 2*pageRecords+4)
	for i, seq := range seqs {
		require.Equal(t, i+4, seq)
	}
}
