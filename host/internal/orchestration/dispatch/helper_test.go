package dispatch_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stream"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var here = policy.Origin{Source: policy.SourceNode}

// order is a call to be executed in a test.
type order struct {
	layer    policy.Layer
	input    string
	deadline time.Duration
	ctx      context.Context
	base     context.Context
	seed     int64
	streams  bool
	pace     *stream.Pace
	live     *stream.Live
	explain  bool
	limits   string // budget of the node, as EDN
	intent   string
	stack    []string
	ledger   budget.Ledger // of a node with limits; nil: a new one
	host     budget.Chain
	grading  bool
	capID    string                // pins the first candidate
	records  *dispatchtest.Records // nil: new ones
}

// retries returns a layer with same retries per candidate and fallback further
// candidates.
func retries(same, fallback int) policy.Layer {
	return policy.Layer{SameCapMax: policy.Of(same, here), FallbackMax: policy.Of(fallback, here)}
}

type served struct {
	*dispatch.Result
	records []journal.Record
	account *budget.Account
}

func limitsIn(t testing.TB, text string) policy.Limits {
	t.Helper()
	limits, err := policy.LimitsOf(edn.MustRead(text))
	require.NoError(t, err)
	return limits
}

// free makes calls to the capabilities cost nothing.
func free(t testing.TB, w *dispatchtest.World, ids ...string) {
	t.Helper()
	for _, id := range ids {
		c, ok := w.Registry.Capability(id)
		require.True(t, ok)
		c.Cost.USD, c.Model = edn.Int(0), ""
	}
}

func serve(t testing.TB, w *dispatchtest.World, o order) served {
	t.Helper()
	if o.ctx == nil {
		o.ctx = context.Background()
	}
	if o.base == nil {
		o.base = o.ctx
	}
	if o.input == "" {
		o.input = `{:prompt "p"}`
	}
	p, err := o.layer.Resolve()
	require.NoError(t, err)
	records := o.records
	if records == nil {
		records = dispatchtest.NewRecords(t)
	}
	trace := edn.MustRead(`{:id "t"}`)
	if o.intent == "" {
		o.intent = "text/respond"
	}
	work := &dispatch.Work{
		Op: "call", Node: "n", Path: edn.Vector(edn.Int(0)), Intent: o.intent,
		Policy: w.Dispatcher.CallPolicy(p, o.intent, o.capID), Input: edn.MustRead(o.input), Stack: o.stack,
	}
	if o.deadline > 0 {
		work.Deadline = time.Now().Add(o.deadline)
	}
	run := &dispatch.Run{ID: "run_test", Seed: o.seed, Trace: trace, Recorder: records, Grant: dispatchtest.Open().Grant(policy.Caller{}), Base: o.base, Explain: o.explain, Grading: o.grading}
	if o.limits != "" {
		work.Budget = budget.Chain{{Kind: budget.Node, ID: "n", Limits: limitsIn(t, o.limits)}}
		if o.ledger == nil {
			o.ledger = budget.NewMemory(time.Now)
		}
		run.Account, run.Host = budget.NewAccount(o.ledger), o.host
	}
	if o.streams {
		work.Stream = run.NewTextStream(dispatch.SystemClock{}, work.Path, work.Node, "", o.pace, o.live, nil)
	}
	r := w.Dispatcher.Serve(o.ctx, run, work)
	return served{r, records.All(), run.Account}
}

func (s served) failure() string {
	if s.Err == nil {
		return ""
	}
	return s.Err.Type
}

// started returns the records of started attempts.
func (s served) started() []*journal.AttemptStarted {
	var out []*journal.AttemptStarted
	for _, r := range s.records {
		if a, ok := r.Body.(*journal.AttemptStarted); ok {
			out = append(out, a)
		}
	}
	return out
}

// finished returns the recorded outcomes of the attempts.
func (s served) finished() []string {
	var out []string
	for _, r := range s.records {
		if f, ok := r.Body.(*journal.AttemptFinished); ok {
			out = append(out, f.Outcome)
		}
	}
	return out
}

func caps(more ...string) []string {
	out := make([]string, len(more))
	for i, m := range more {
		out[i] = dispatchtest.Cap("t/"+string(rune('a'+i)), m)
	}
	return out
}

func world(t testing.TB, more ...string) *dispatchtest.World {
	return dispatchtest.New(t, dispatchtest.Spec{Caps: caps(more...)})
}

func out(text string) dispatchtest.Step { return dispatchtest.Step{Value: edn.MustRead(text)} }

func fails(typ string) dispatchtest.Step {
	return dispatchtest.Step{Err: contract.Errorf(typ, "scripted")}
}
