package daemon

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// recordedAt is when the first run of the tests was accepted.
var recordedAt = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// runScript writes the records of one run with one node.
type runScript struct {
	t   *testing.T
	to  *store.Store
	run string
	at  time.Time

	seq, epoch int
}

func (s *runScript) put(bodies ...journal.Body) {
	s.t.Helper()
	for _, body := range bodies {
		s.seq++
		s.at = s.at.Add(time.Second)
		rec := journal.Record{Run: s.run, Seq: s.seq, At: s.at, Epoch: s.epoch, Body: body}
		switch body.(type) {
		case *journal.NodeResolved, *journal.AttemptStarted, *journal.AttemptFinished, *journal.NodeCommitted, *journal.NodeFailed:
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
			Principal: "uid/7", PrincipalType: "local", Operation: "act/run", Intent: intent,
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

// dataDirOf returns a configuration with a journal of a completed, a failed and
// an open run, the latter resumed once.
func dataDirOf(t *testing.T) *config.Config {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "var")
	require.NoError(t, os.Mkdir(dir, 0o700))
	cfg := &config.Config{Host: config.Host{DataDir: dir}, Store: config.Store{File: filepath.Join(dir, "ferment.db"), MinFree: 1}}
	s, err := store.Open(t.Context(), storeOptions(cfg.Store))
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
	open := &runScript{t: t, to: s, run: openRun, at: recordedAt.Add(2 * time.Hour), epoch: 1}
	open.begin("a/good")
	open.epoch = 2
	open.put(&journal.RunResumed{Host: "here", Boot: "2", Config: edn.Hash(edn.Int(2)), Was: edn.Hash(edn.Int(1)), Why: journal.ResumedCrash})
	require.NoError(t, s.Close())
	return cfg
}

// journalOf opens the journal of a configuration.
func journalOf(t *testing.T, cfg *config.Config, create bool) *Journal {
	t.Helper()
	j, err := OpenJournal(t.Context(), cfg, create)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, j.Close()) })
	return j
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

// HTTP-006, as far as a list selects by status, intent, time and number.
func TestJournalLists(t *testing.T) {
	j := journalOf(t, dataDirOf(t), false)
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

func TestJournalNamesRuns(t *testing.T) {
	j := journalOf(t, dataDirOf(t), false)
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

func TestJournalShows(t *testing.T) {
	j := journalOf(t, dataDirOf(t), false)
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

func TestJournalPages(t *testing.T) {
	j := journalOf(t, dataDirOf(t), false)
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
func TestJournalVerifies(t *testing.T) {
	cfg := dataDirOf(t)
	j, err := OpenJournal(t.Context(), cfg, false)
	require.NoError(t, err)
	whole, failed := j.Verify(t.Context(), "")
	require.Nil(t, failed)
	assert.Equal(t, `{:damaged [] :ok? true :runs 3}`, whole.String())
	require.NoError(t, j.Close())

	db, err := sql.Open("sqlite", cfg.Store.File)
	require.NoError(t, err)
	_, err = db.Exec(`DROP TRIGGER records_update; UPDATE records SET body = replace(body, 'uid/7', 'uid/8') WHERE id & 4294967295 = 1 AND id >> 32 = 1`)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	j = journalOf(t, cfg, false)
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
func TestJournalVerifiesRunInProgress(t *testing.T) {
	cfg := dataDirOf(t)
	s, err := store.Open(t.Context(), storeOptions(cfg.Store))
	require.NoError(t, err)
	defer func() { assert.NoError(t, s.Close()) }()
	growing := &runScript{t: t, to: s, run: "run_04EEEEEEEEEEEEEEEEEEEEEEEE", at: recordedAt, epoch: 1}
	growing.begin("a/good")
	over := make(chan struct{})
	go func() {
		defer close(over)
		for range 200 {
			growing.put(&journal.CancelRequested{By: "a test"})
		}
	}()
	j := &Journal{store: s}
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
func TestJournalMovesRuns(t *testing.T) {
	cfg := dataDirOf(t)
	s, err := store.Open(t.Context(), storeOptions(cfg.Store))
	require.NoError(t, err)
	const bigRun = "run_03DDDDDDDDDDDDDDDDDDDDDDDD"
	big := &runScript{t: t, to: s, run: bigRun, at: recordedAt, epoch: 1}
	big.begin("a/big")
	big.complete(edn.Text(strings.Repeat("aé", 2*pageBytes/3))) // parts would end within a character
	require.NoError(t, s.Close())
	j := journalOf(t, cfg, false)

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

	other := filepath.Join(t.TempDir(), "var")
	there := journalOf(t, &config.Config{Host: config.Host{DataDir: other}, Store: config.Store{File: filepath.Join(other, "ferment.db"), MinFree: 1}}, true)
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
	assert.Equal(t, "journal/fenced", typeOf(failed))
	cut := filepath.Join(t.TempDir(), "cut.edn")
	require.NoError(t, os.WriteFile(cut, []byte(file.String()[:pageBytes]), 0o600))
	_, failed = j.Import(t.Context(), cut)
	assert.Equal(t, "import/invalid", typeOf(failed))
	_, failed = there.Import(t.Context(), path+"x")
	assert.Equal(t, "invalid-request", typeOf(failed))
}

// JRN-060, JRN-061, as far as they say what an operator changes: pins, and the
// deletion of values, which keeps records. Package store proves the rest.
func TestJournalPinsAndPurges(t *testing.T) {
	j := journalOf(t, dataDirOf(t), false)
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

// OPS-002, as far as it concerns commands: the journal of a locked data directory
// is not opened.
func TestJournalOfLockedDirectory(t *testing.T) {
	cfg := dataDirOf(t)
	journalOf(t, cfg, false)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := OpenJournal(ctx, cfg, false)
	assert.ErrorIs(t, err, contract.OfType("runtime/not-ready"))
}

func TestNoJournal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "var")
	absent := journalOf(t, &config.Config{Host: config.Host{DataDir: dir}, Store: config.Store{File: filepath.Join(dir, "ferment.db")}}, false)
	list, err := absent.List(t.Context(), httpapi.RunFilter{})
	require.Nil(t, err)
	assert.Zero(t, list.Key("runs").Len())
	verified, err := absent.Verify(t.Context(), "")
	require.Nil(t, err)
	assert.Equal(t, "0", verified.Key("runs").String())
	_, err = absent.Show(t.Context(), "last", httpapi.RunParts{})
	assert.Equal(t, "run/not-found", typeOf(err))
	assert.NoDirExists(t, dir)

	memory := journalOf(t, &config.Config{Host: config.Host{DataDir: dir}}, false)
	_, err = memory.List(t.Context(), httpapi.RunFilter{})
	assert.Equal(t, "db/not-configured", typeOf(err))
}
