package dispatch_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/bandit"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/learned"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// learnedWorld has a book and the events that it reports.
type learnedWorld struct {
	*dispatchtest.World
	book   *learned.Book
	events []stats.Notice
}

func worldThatLearns(t testing.TB, more ...string) *learnedWorld {
	w := &learnedWorld{World: worldWithStats(t, more...)}
	w.book = learned.NewBook(nil, func(n stats.Notice) { w.events = append(w.events, n) })
	w.Dispatcher.Learned = w.book
	return w
}

// learning is a layer with the policy learned and fallbacks.
func learning(fallback int, more ...func(*policy.Layer)) policy.Layer {
	l := retries(0, fallback)
	l.Ordering = policy.Of(policy.Learning, here)
	for _, change := range more {
		change(&l)
	}
	return l
}

func learns(change func(*policy.LearnedLayer)) func(*policy.Layer) {
	return func(l *policy.Layer) {
		l.Learned = &policy.LearnedLayer{}
		change(l.Learned)
	}
}

var respond = learned.Key{Intent: "text/respond"}

// belief returns passes and fails of an arm.
func (w *learnedWorld) belief(t testing.TB, capID string) string {
	t.Helper()
	p, err := learning(0).Resolve()
	require.NoError(t, err)
	b := w.book.Group(context.Background(), respond).Belief(bandit.Arm{CapID: capID, Major: 1}, bandit.Declared{}, p.Learned, time.Now())
	return fmt.Sprintf("%.2f of %.2f", b.Passes, b.Passes+b.Fails)
}

// train gives each arm outcomes, so that the group is warm.
func (w *learnedWorld) train(k learned.Key, passes, fails map[string]int) {
	p, _ := learning(0).Resolve()
	for _, pass := range []bool{true, false} {
		counts := fails
		if pass {
			counts = passes
		}
		for id, n := range counts {
			for range n {
				w.book.Add(k, bandit.Outcome{Arm: bandit.Arm{CapID: id, Major: 1}, Pass: pass, At: time.Now()}, p.Learned)
			}
		}
	}
}

// LRN-001, LRN-005: without counts the declared order holds, outcomes are counted, and
// the event says that it starts from the priors; then the better arm comes first.
func TestLearnedOrder(t *testing.T) {
	w := worldThatLearns(t, "", "", "")
	w.On("t/a", wrong).On("t/b", out(`{:n 2}`)).On("t/c", out(`{:n 3}`))
	var before []string
	for n := range 60 {
		r := serve(t, w.World, order{layer: learning(2), seed: int64(n)})
		require.Nil(t, r.Err)
		rec := r.resolved(t)
		require.NotNil(t, rec.Learned)
		assert.Equal(t, "learned", rec.Policy)
		if rec.Learned.Cold {
			assert.Equal(t, []string{"t/a", "t/b", "t/c"}, rec.Learned.Order)
			assert.EqualValues(t, 1, rec.Learned.Propensity)
			assert.Empty(t, rec.Learned.Seed)
			before = append(before, rec.Learned.Order[0])
			continue
		}
		assert.NotEmpty(t, rec.Learned.Seed)
		var listed []string
		for _, c := range rec.Candidates {
			listed = append(listed, c.CapID)
		}
		assert.Equal(t, rec.Learned.Order, listed, "the candidates are recorded in their order")
	}
	assert.Len(t, before, 50, "t/c had no outcome, so 50 decisions passed")
	require.Len(t, w.events, 1)
	assert.Equal(t, stats.EventPriorsReset, w.events[0].Event)
	assert.Equal(t, ":text/respond learns the order of its candidates from the start: nothing is stored", w.events[0].Sentence())
	first := 0
	for n := range 40 {
		r := serve(t, w.World, order{layer: learning(2), seed: int64(1000 + n)})
		if r.resolved(t).Learned.Order[0] != "t/a" {
			first++
		}
	}
	assert.Greater(t, first, 30, "the arm that always fails is seldom the first")
}

// LRN-003, LRN-004: an equal seed, path and attempt give an equal decision, with all that
// led to it in the record; another seed gives another one now and then.
func TestLearnedDecisionIsRecorded(t *testing.T) {
	synctest.Test(t, recordsDecision) // while the clock stands
}

func recordsDecision(t *testing.T) {
	w := worldThatLearns(t, "", "", "")
	w.On("t/a", out(`{:n 1}`)).On("t/b", out(`{:n 2}`)).On("t/c", out(`{:n 3}`))
	w.train(respond, map[string]int{"t/a": 6, "t/b": 5, "t/c": 1}, map[string]int{"t/a": 2, "t/b": 1, "t/c": 5})
	w.book = learned.NewBook(frozen{w.book}, nil)
	w.Dispatcher.Learned = w.book
	seen := map[string]bool{}
	for seed := range int64(30) {
		one := serve(t, w.World, order{layer: learning(1), seed: seed}).resolved(t).Learned
		two := serve(t, w.World, order{layer: learning(1), seed: seed}).resolved(t).Learned
		require.Equal(t, one.Value().String(), two.Value().String())
		assert.Len(t, one.Counts, 3)
		assert.InDelta(t, 6, one.Counts[0].Passes, 0.01)
		assert.Less(t, one.Propensity, 1.0)
		assert.Greater(t, one.Propensity, 0.0)
		seen[strings.Join(one.Order, " ")] = true
		rec := journal.Record{Run: "run_1", Seq: 1, At: time.Unix(0, 0).UTC(), Epoch: 1, Path: edn.Vector(edn.Int(0)), Node: "n",
			Body: &journal.NodeResolved{Op: "call", Intent: "t/x", Policy: "learned", Strategy: "cascade", Learned: one}}
		dispatchtest.Verify(t, rec)
		got, err := (&journal.Decoder{}).Decode(edn.MustRead(rec.Value().String()))
		require.NoError(t, err)
		assert.Equal(t, one.Value().String(), got.Body.(*journal.NodeResolved).Learned.Value().String())
	}
	assert.Greater(t, len(seen), 1)
}

// frozen is a store that counts nothing.
type frozen struct{ of *learned.Book }

func (f frozen) Learned(ctx context.Context, k learned.Key) (string, error) {
	return f.of.Group(ctx, k).Text(), nil
}
func (frozen) AllLearned(context.Context) (map[learned.Key]string, error) { return nil, nil }
func (frozen) Learn(learned.Key, func(string) string, func())             {}

// LRN-002: without chance, by posterior mean, are calls with effects, without a fallback,
// with a budget for one attempt, whose outcomes do not count, and with a pinned candidate, which stays first.
func TestLearnedWithoutChance(t *testing.T) {
	w := worldThatLearns(t, ":cap/cost {:usd 0.01M}", ":cap/cost {:usd 0.01M}", ":cap/effects #{:fs/write} :cap/idempotent? true")
	w.On("t/a", out(`{:n 1}`)).On("t/b", out(`{:n 2}`)).On("t/c", out(`{:n 3}`))
	w.train(respond, map[string]int{"t/a": 5, "t/b": 9, "t/c": 5}, map[string]int{"t/a": 6, "t/c": 9})
	pair := func(l *policy.Layer) { l.Candidates = policy.Of([]string{"t/a", "t/b"}, here) }
	for name, tt := range map[string]struct {
		order order
		first string
	}{
		"effects":     {order{layer: learning(1)}, "t/b"},
		"no fallback": {order{layer: learning(0, pair)}, "t/b"},
		"budget":      {order{layer: learning(1, pair), limits: `{:max-usd 0.015M}`}, "t/b"},
		"race":        {order{layer: learning(1, pair, func(l *policy.Layer) { l.Strategy = policy.Of(policy.Race, here) })}, "t/b"},
		"pinned":      {order{layer: learning(1, func(l *policy.Layer) { l.Fallbacks = policy.NamesOf(here, "t/b") }), capID: "t/a"}, "t/a"},
	} {
		for seed := range int64(12) {
			tt.order.seed = seed
			r := serve(t, w.World, tt.order)
			require.Nil(t, r.Err, name)
			got := r.resolved(t).Learned
			require.NotNil(t, got, name)
			assert.Equal(t, tt.first, got.Order[0], name)
			assert.Equal(t, []any{1.0, false, ""}, []any{got.Propensity, got.Explored, got.Seed}, name)
		}
	}
	r := serve(t, w.World, order{layer: learning(1, pair), limits: `{:max-usd 0.02M}`})
	assert.NotEmpty(t, r.resolved(t).Learned.Seed, "the budget has room for a fallback")
	r = serve(t, w.World, order{layer: learning(1), capID: "t/b"})
	assert.Nil(t, r.resolved(t).Learned, "with one candidate there is nothing to decide")
}

// LRN-001: a committed answer is a pass, a refused one a fail; what crashes, times out,
// is not reached, ran beside others, or could not be judged changes nothing.
func TestLearnedOutcomes(t *testing.T) {
	repairs := func(l *policy.Layer) { l.RepairMax = policy.Of(1, here) }
	race := func(l *policy.Layer) { l.Strategy = policy.Of(policy.Race, here) }
	tournament := func(l *policy.Layer) { l.Strategy = policy.Of(policy.Tournament, here) }
	crash := dispatchtest.Step{Crash: true}
	for name, tt := range map[string]struct {
		layer policy.Layer
		a, b  []dispatchtest.Step
		want  string
	}{
		"pass":       {learning(1), []dispatchtest.Step{out(`{}`)}, nil, "1.00 of 1.00, 0.00 of 0.00"},
		"fail":       {learning(1), []dispatchtest.Step{wrong}, []dispatchtest.Step{out(`{}`)}, "0.00 of 1.00, 1.00 of 1.00"},
		"both fail":  {learning(1), []dispatchtest.Step{wrong}, []dispatchtest.Step{wrong}, "0.00 of 1.00, 0.00 of 1.00"},
		"crash":      {learning(1), []dispatchtest.Step{crash}, []dispatchtest.Step{out(`{}`)}, "0.00 of 0.00, 1.00 of 1.00"},
		"outage":     {learning(1), []dispatchtest.Step{fails("provider/unavailable")}, []dispatchtest.Step{out(`{}`)}, "0.00 of 0.00, 1.00 of 1.00"},
		"repaired":   {learning(1, repairs), []dispatchtest.Step{wrong, out(`{}`)}, nil, "1.00 of 1.00, 0.00 of 0.00"},
		"unrepaired": {learning(1, repairs), []dispatchtest.Step{wrong}, []dispatchtest.Step{out(`{}`)}, "0.00 of 1.00, 1.00 of 1.00"},
		"race":       {learning(1, race), []dispatchtest.Step{out(`{}`)}, []dispatchtest.Step{{Hang: true}}, "0.00 of 0.00, 0.00 of 0.00"},
		"race fails": {learning(1, race), []dispatchtest.Step{wrong}, []dispatchtest.Step{out(`{}`)}, "0.00 of 0.00, 0.00 of 0.00"},
		"tournament": {learning(1, tournament), []dispatchtest.Step{out(`{}`)}, []dispatchtest.Step{wrong}, "0.00 of 0.00, 0.00 of 0.00"},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldThatLearns(t, ":cap/repairs? true", "")
			w.On("t/a", tt.a...).On("t/b", tt.b...)
			serve(t, w.World, order{layer: tt.layer})
			assert.Equal(t, tt.want, w.belief(t, "t/a")+", "+w.belief(t, "t/b"))
		})
	}
}

// LRN-001: cost and latency of the outcomes are learned, and the cheaper of equal arms
// comes first.
func TestLearnedCost(t *testing.T) {
	w := worldThatLearns(t, "", "")
	for id, usd := range map[string]string{"t/a": "0.09M", "t/b": "0.01M"} {
		w.On(id, dispatchtest.Step{Value: edn.MustRead(`{}`), Usage: edn.MustRead(`{:cost-usd ` + usd + `}`)})
		for range 30 {
			serve(t, w.World, order{layer: learning(1, func(l *policy.Layer) { l.Candidates = policy.Of([]string{id}, here) })})
		}
	}
	w.train(respond, nil, nil)
	r := serve(t, w.World, order{layer: learning(0, learns(func(l *policy.LearnedLayer) { l.LatencyWeight = policy.Of(0.0, here) }))})
	for n := 0; r.resolved(t).Learned.Cold; n++ {
		require.Less(t, n, 60)
		r = serve(t, w.World, order{layer: learning(0, learns(func(l *policy.LearnedLayer) { l.LatencyWeight = policy.Of(0.0, here) }))})
	}
	assert.Equal(t, "t/b", r.resolved(t).Learned.Order[0])
}

// LRN-001: buckets learn apart.
func TestLearnedBuckets(t *testing.T) {
	for name, tt := range map[string]struct{ bucket, input, want string }{
		"none":    {policy.BucketNone, `{:prompt "p"}`, ""},
		"small":   {policy.BucketSize, `{:prompt "p"}`, "small"},
		"medium":  {policy.BucketSize, fmt.Sprintf(`{:prompt %q}`, strings.Repeat("p", 2<<10)), "medium"},
		"large":   {policy.BucketSize, fmt.Sprintf(`{:prompt %q}`, strings.Repeat("p", 32<<10)), "large"},
		"german":  {policy.BucketLanguage, `{:prompt "Wie viele Brücken gibt es in dieser Stadt, und wann wurden sie gebaut?"}`, "de"},
		"unknown": {policy.BucketLanguage, `{:n 1}`, "und"},
	} {
		w := worldThatLearns(t, "", "")
		w.On("t/a", out(`{}`)).On("t/b", out(`{}`))
		l := learning(1, learns(func(l *policy.LearnedLayer) { l.Bucket = policy.Of(tt.bucket, here) }))
		r := serve(t, w.World, order{layer: l, input: tt.input})
		assert.Equal(t, tt.want, r.resolved(t).Learned.Bucket, name)
		assert.Len(t, w.book.Group(t.Context(), learned.Key{Intent: "text/respond", Bucket: tt.want}).Known(), 1, name)
	}
}

// An explanation shows the order without chance, and counts nothing (BIND-006).
func TestExplainLearned(t *testing.T) {
	w := worldThatLearns(t, "", "")
	w.train(respond, map[string]int{"t/a": 1, "t/b": 9}, map[string]int{"t/a": 9})
	pol, err := learning(1).Resolve()
	require.NoError(t, err)
	for range 3 {
		x := w.Dispatcher.Explain(pol, "text/respond", "", false)
		assert.Equal(t, []string{"t/b", "t/a"}, x.Binding.Accepted)
	}
	w.Dispatcher.Learned = nil
	x := w.Dispatcher.Explain(pol, "text/respond", "", false)
	assert.Equal(t, []string{"t/a", "t/b"}, x.Binding.Accepted)
	assert.NotNil(t, serve(t, w.World, order{layer: learning(1)}).Out)
}
