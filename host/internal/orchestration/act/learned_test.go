package act_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/bandit"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/learned"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// countingStore counts the reads of a store, which a decision makes, and its outcomes.
type countingStore struct {
	learned.Memory
	outcomes int
}

func (s *countingStore) Learn(k learned.Key, change func(string) string, done func()) {
	s.outcomes++
	s.Memory.Learn(k, change, done)
}

// trained returns a book in which one arm has passed ten times and the other has failed
// as often.
func trained(good, bad string) (*learned.Book, *countingStore) {
	s := &countingStore{}
	b := learned.NewBook(s, nil)
	p, _ := policy.Layer{Ordering: policy.Of(policy.Learning, policy.Origin{})}.Resolve()
	for range 10 {
		for _, id := range []string{good, bad} {
			b.Add(learned.Key{Intent: "text/respond"},
				bandit.Outcome{Arm: bandit.Arm{CapID: id, Major: 1}, Pass: id == good, At: time.Now()}, p.Learned)
		}
	}
	s.outcomes = 0
	return b, s
}

func seedOne() int64 { return 1 }

func learnedDecisions(records []journal.Record) (all []*journal.Learned) {
	for _, r := range records {
		if n, ok := r.Body.(*journal.NodeResolved); ok {
			all = append(all, n.Learned)
		}
	}
	return all
}

// LRN-004: a run that is cut after any of its records goes on with the recorded order,
// whatever the host that resumes it has learned; a replay has that order too. Neither
// draws, nor counts the outcome of a recorded attempt once more.
func TestLearnedOrderSurvives(t *testing.T) {
	text := asking("[:a/one :a/two]", ":policy :learned :retry {:fallback-max 1}", "{}", ":done {:must #{:good}}")
	book, store := trained("a/two", "a/one")
	_, err, records := do(t, service(t, resumeWorld(t), func(c *act.Config) { c.Learned, c.NewSeed = book, seedOne }), text)
	require.Nil(t, err)
	decided := learnedDecisions(records)
	require.Len(t, decided, 1)
	require.NotNil(t, decided[0])
	require.NotEmpty(t, decided[0].Seed)
	require.Equal(t, "a/two", decided[0].Order[0], "the seed of the run gives this order")
	assert.Equal(t, 1, store.outcomes)

	for n := 1; n < len(records); n++ {
		other, counted := trained("a/one", "a/two")
		w := resumeWorld(t)
		all, err := resumed(t, w, records[:n], crashed, func(c *act.Config) { c.Learned = other })
		require.Nil(t, err)
		again := learnedDecisions(all)
		known, calls := len(learnedDecisions(records[:n])) > 0, len(w.Calls())
		assert.LessOrEqual(t, counted.outcomes, calls, "after %d records", n)
		if !known {
			continue // nothing was decided yet
		}
		for _, l := range again {
			assert.Equal(t, decided[0].Value().String(), l.Value().String(), "after %d records", n)
		}
		for _, c := range w.Calls() {
			assert.Equal(t, "a/two", c.CapID, "after %d records", n)
		}
	}

	other, counted := trained("a/one", "a/two")
	w := resumeWorld(t)
	s := service(t, w, func(c *act.Config) { c.Learned = other })
	_, missed := act.Replay(t.Context(), s.Config(), records[0].Run, decoded(t, records))
	require.Nil(t, missed, "%v", missed)
	assert.Empty(t, w.Calls())
	assert.Zero(t, counted.outcomes)
}

// LRN-004, STR-004: after a crash while text of the first choice was shown, that text is
// retracted and the run goes on with the recorded order. Where text binds from the first
// token, the run ends with an error instead.
func TestLearnedOrderOfShownText(t *testing.T) {
	text := asking("[:a/one :a/two]", ":policy :learned :retry {:fallback-max 1}", "{}", ":response/type :stream")
	for _, mode := range []string{policy.Provisional, policy.FirstToken} {
		world := func() *dispatchtest.World {
			w := resumeWorld(t)
			w.Policies.Intents = map[string]policy.Layer{"text/respond": {Stream: policy.Of(mode, policy.Origin{Source: policy.SourceIntent})}}
			for _, id := range []string{"a/one", "a/two"} {
				w.Func(id, func(context.Context, dispatch.Call) dispatchtest.Step {
					return dispatchtest.Step{Pieces: []string{"half ", "of it"}, Value: edn.MustRead(`{:text "half of it"}`)}
				})
			}
			return w
		}
		book, _ := trained("a/two", "a/one")
		_, err, records := do(t, service(t, world(), func(c *act.Config) { c.Learned, c.NewSeed = book, seedOne }), text)
		require.Nil(t, err)
		shown := slices.IndexFunc(records, func(r journal.Record) bool { return r.Body.Kind() == journal.KindAttemptChunk })
		require.Positive(t, shown)
		decided := learnedDecisions(records)[0]
		require.NotEmpty(t, decided.Seed)

		other, counted := trained("a/one", "a/two")
		w := world()
		all, err := resumed(t, w, records[:shown+1], crashed, func(c *act.Config) { c.Learned = other })
		rest := all[shown+1:]
		retracted := slices.ContainsFunc(rest, func(r journal.Record) bool { return r.Body.Kind() == journal.KindAttemptRetracted })
		if mode == policy.FirstToken {
			require.NotNil(t, err)
			assert.Equal(t, "stream/truncated", err.Type)
			assert.True(t, retracted)
			assert.Empty(t, w.Calls())
			assert.Zero(t, counted.outcomes)
			continue
		}
		require.Nil(t, err)
		assert.True(t, retracted)
		require.Len(t, w.Calls(), 1)
		assert.Equal(t, decided.Order[0], w.Calls()[0].CapID)
		for _, l := range learnedDecisions(all) {
			assert.Equal(t, decided.Order, l.Order)
		}
	}
}
