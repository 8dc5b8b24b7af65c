package act_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// disk is a journal that notes which records were durable at each Sync.
type disk struct {
	act.Journal
	fault error

	mu    sync.Mutex
	last  map[string]journal.Kind // newest record of each run
	syncs []journal.Kind          // newest record at each Sync
}

// Append implements journal.Journal.
func (d *disk) Append(ctx context.Context, r journal.Record) error {
	d.mu.Lock()
	d.last[r.Run] = r.Body.Kind()
	d.mu.Unlock()
	return d.Journal.Append(ctx, r)
}

// Sync implements journal.Syncer.
func (d *disk) Sync(_ context.Context, run string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.syncs = append(d.syncs, d.last[run])
	return d.fault
}

// Keyed implements act.KeyFinder.
func (d *disk) Keyed(context.Context, string) (string, error) { return "", nil }

// JRN-004: an act without effects or price commits once, before its answer leaves;
// one with a key is durable before it starts. Package dispatch covers calls.
func TestDurableBeforeTheAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		more string
		want []journal.Kind
	}{
		"plain": {"", []journal.Kind{journal.KindRunFinished}},
		"keyed": {`:idempotency/key "k-1"`, []journal.Kind{journal.KindRunAccepted, journal.KindRunFinished}},
	} {
		t.Run(name, func(t *testing.T) {
			w := priced(t, dispatchtest.Cap("a/free", ":cap/cost {:usd 0}"))
			d := &disk{Journal: journal.NewMemory(), last: map[string]journal.Kind{}}
			s := service(t, w, func(c *act.Config) { c.Journal, c.Keys = d, &act.Keys{} })
			called := 0
			w.Func("a/free", func(context.Context, dispatch.Call) dispatchtest.Step {
				called = len(d.syncs)
				return value(`{:good true}`)
			})
			response, err := s.Do(t.Context(), request(asking("[:a/free]", "", "{}", tc.more)))
			require.Nil(t, err, "%v", err)
			assert.True(t, response.HasKey("result"))
			assert.Equal(t, tc.want, d.syncs)
			assert.Equal(t, len(tc.want)-1, called)

			d.fault = contract.Errorf("journal/unavailable", "no disk")
			response, err = s.Do(t.Context(), request(asking("[:a/free]", "", "{}", tc.more)))
			require.NotNil(t, err)
			assert.Equal(t, "journal/unavailable", err.Type)
			assert.False(t, response.HasKey("result"), "an answer that is not recorded does not leave")
		})
	}
}

// JRN-004, JRN-044: a decision about a suspended run is on disk before its caller gets an answer.
// A decision that cannot be written is refused, and calls nothing.
func TestDurableDecision(t *testing.T) {
	records, _ := suspendedRun(t, losing(t, 1), ownPlan(payPlan, "", writes))
	for name, fault := range map[string]error{"written": nil, "not written": contract.Errorf("journal/unavailable", "no disk")} {
		t.Run(name, func(t *testing.T) {
			past, kept, w := decoded(t, records), journal.NewMemory(), resumeWorld(t)
			kept.Load(past[0].Run, past)
			d := &disk{Journal: kept, last: map[string]journal.Kind{}, fault: fault}
			s := service(t, w, suspending, func(c *act.Config) { c.Journal = d })
			run, refused := s.Resume(t.Context(), past[0].Run, past, deciding("n0", journal.DecisionRetry, edn.Nil()))
			if fault != nil {
				require.NotNil(t, refused)
				assert.Equal(t, "journal/unavailable", refused.Type)
				assert.Empty(t, w.Calls())
				return
			}
			require.Nil(t, refused, "%v", refused)
			_, err := run.Wait()
			require.Nil(t, err, "%v", err)
			assert.Equal(t, journal.KindRunResumed, d.syncs[0])
			epochs := 0
			for _, rec := range run.Records() {
				if rec.Body.Kind() == journal.KindRunResumed {
					epochs++
				}
			}
			assert.Equal(t, 1, epochs)
		})
	}
}

// narrow is a journal that refuses values with a text of more than limit bytes.
type narrow struct {
	act.Journal
	limit int
}

// Append implements journal.Journal.
func (n narrow) Append(ctx context.Context, r journal.Record) (err error) {
	r.Refs(func(ref journal.Ref) {
		if len(ref.Value().String()) > n.limit {
			err = contract.Errorf("journal/too-large", "append %s: it is too large", r.Body.Kind())
		}
	})
	if err != nil {
		return err
	}
	return n.Journal.Append(ctx, r)
}

// RUN-005, JRN-020: a run whose answer, or the value of one of its nodes, is too large for the journal fails with
// that error, and has a last record.
func TestTooLargeForTheJournal(t *testing.T) {
	long := strings.Repeat("x", 1000)
	emit := ` {:op :emit :input [{:slot/path [:x :out]} {:slot/path [:x :out]} {:slot/path [:x :out]}]}]}`
	for name, limit := range map[string]int{"response": 2500, "node": 800} {
		t.Run(name, func(t *testing.T) {
			w := two(t)
			w.On("a/one", value(`{:text "`+long+`"}`))
			s := service(t, w, func(c *act.Config) { c.Journal = narrow{journal.NewMemory(), limit} })
			run, refused := s.Start(t.Context(), request(ownPlan(`{:nodes [{:op :call :intent :text/respond :dispatch {:candidates [:a/one]} :input {} :as :x}`+emit, "", "")))
			require.Nil(t, refused, "%v", refused)
			response, err := run.Wait()
			require.NotNil(t, err)
			assert.Equal(t, "journal/too-large", err.Type, "%v", err)
			assert.False(t, response.HasKey("result"))
			end := finished(t, run.Records())
			assert.Equal(t, journal.StatusFailed, end.Status)
			assert.Equal(t, "journal/too-large", end.Err.Type)
		})
	}
}
