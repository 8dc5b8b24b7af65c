package store

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// children are processes that the test program becomes in place of the tests. Each reports
// whether the environment asked for it.
var children = []func() bool{killed}

func TestMain(m *testing.M) {
	if slices.ContainsFunc(children, func(child func() bool) bool { return child() }) {
		return
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := endBackends(); err != nil {
			panic(err)
		}
		os.Exit(code)
	}))
}

var (
	start   = time.Date(2026, 11, 20, 9, 0, 0, 42_000_000, time.UTC)
	someSum = edn.Hash(edn.Int(1))
	nothing = edn.MustMap()
	usage   = edn.MustRead(`{:tokens-in 1 :tokens-mark :exact}`)
)

// script makes the records of one run.
type script struct {
	run   string
	epoch int
	seq   int
	at    time.Time
}

func newScript(run string) *script { return &script{run: run, epoch: 1, at: start} }

func (s *script) record(body journal.Body) journal.Record {
	s.seq++
	s.at = s.at.Add(time.Millisecond)
	r := journal.Record{Run: s.run, Seq: s.seq, At: s.at, Epoch: s.epoch, Body: body}
	switch body.(type) {
	case *journal.RunAccepted, *journal.RunStarted, *journal.RunSuspended, *journal.RunResumed, *journal.RunFinished, *journal.CancelRequested:
	default:
		r.Path, r.Node = edn.Vector(edn.Int(0)), "c-01"
	}
	return r
}

func (s *script) accepted(request edn.Value) journal.Record {
	return s.record(&journal.RunAccepted{
		Principal:     "uid/7",
		PrincipalType: "user",
		Operation:     "act/run",
		Intent:        "a/b",
		Request:       journal.RefTo(request),
		Fingerprint:   journal.RefTo(request),
		ResponseType:  "value",
		Class:         "sync",
		DeadlineAt:    start.Add(time.Minute),
		Config:        someSum,
		Evaluator:     1,
		Trace:         nothing,
		SessionID:     "session of " + s.run,
		Tenant:        "a tenant",
	})
}

// step are the records of one node that is called once and judged once.
func (s *script) step(request, result edn.Value) []journal.Record {
	return []journal.Record{
		s.record(&journal.NodeResolved{Op: "call", Intent: "a/b", Candidates: []journal.Candidate{{CapID: "a/one"}},
			Policy: "declared", Strategy: "cascade"}),
		s.record(&journal.AttemptStarted{Attempt: 1, CapID: "a/one", CapVersion: "1.0.0", Request: journal.RefTo(request),
			Effects: []string{"none"}, Recovery: "none", EffectKey: someSum, Budget: nothing}),
		s.record(&journal.AttemptFinished{Attempt: 1, Outcome: "ok", Latency: time.Millisecond, Usage: usage,
			Result: journal.RefTo(result), ResultType: "value"}),
		s.record(&journal.GateVerdict{Attempt: 1, Gate: "good", Severity: "must", Pass: true}),
		s.record(&journal.NodeCommitted{Value: journal.RefTo(result), CapID: "a/one", Attempt: 1, Score: journal.ScoreOf(1000)}),
	}
}

func (s *script) finished(response edn.Value) journal.Record {
	return s.record(&journal.RunFinished{Status: "completed", Response: journal.RefTo(response), Executed: true,
		Latency: 7 * time.Millisecond, Totals: edn.MustRead(`{:operations {} :attempts {:total 1 :cost-usd 0.25M}}`)})
}

// whole are the records of a run with a number of steps.
func (s *script) whole(steps int) []journal.Record {
	out := []journal.Record{s.accepted(edn.MustRead(`{:input "` + s.run + `"}`))}
	for i := range steps {
		out = append(out, s.step(textOf(i, 300), textOf(i+1000, 400))...)
	}
	return append(out, s.finished(edn.Text("done "+s.run)))
}

// textOf returns a map whose text is longer than n bytes and depends on seed.
func textOf(seed, n int) edn.Value {
	line := fmt.Sprintf("line %d of %d ", seed, n)
	return edn.MustMap(edn.K("n"), edn.Int(int64(seed)), edn.K("text"), edn.Text(strings.Repeat(line, n/len(line)+1)))
}

func now() time.Time { return start.Add(time.Hour) }

func openAt(t testing.TB, dir string, change ...func(*Options)) *Store {
	t.Helper()
	return onFile.openAt(t, dir, change...)
}

func tryOpen(t testing.TB, dir string, change ...func(*Options)) (*Store, error) {
	t.Helper()
	return onFile.tryOpen(t, dir, change...)
}

func tamper(t testing.TB, dir string, statements ...string) {
	t.Helper()
	onFile.tamper(t, dir, statements...)
}

func filled(t testing.TB) string { return onFile.filled(t) }

func appendAll(t testing.TB, to journal.Journal, records ...journal.Record) {
	t.Helper()
	for _, r := range records {
		require.NoError(t, to.Append(context.Background(), r))
	}
}

func syncRun(t testing.TB, j journal.Journal, run string) {
	t.Helper()
	if s, ok := j.(journal.Syncer); ok {
		require.NoError(t, s.Sync(context.Background(), run))
	}
}

// texts are the stored forms of records.
func texts(records []journal.Record) []string {
	out := make([]string, len(records))
	for i, r := range records {
		out[i] = r.Value().String()
	}
	return out
}

// each runs a test over every journal.
func each(t *testing.T, test func(t *testing.T, j act.Journal)) {
	onEach(t, func(t *testing.T, on backend) { test(t, on.openAt(t, t.TempDir())) })
	t.Run("memory", func(t *testing.T) { test(t, journal.NewMemory()) })
}

func typed(t testing.TB, err error, typ string) {
	t.Helper()
	require.ErrorIs(t, err, contract.OfType(typ))
}

// checkpoint empties the log.
func checkpoint(t testing.TB, s *Store) {
	t.Helper()
	whole, err := lite(s).flush(context.Background())
	require.NoError(t, err)
	require.True(t, whole)
}

// recordsOf returns the records of a run.
func recordsOf(t testing.TB, from interface {
	Records(run string) ([]journal.Record, error)
}, run string) []journal.Record {
	t.Helper()
	records, err := from.Records(run)
	require.NoError(t, err)
	return records
}
