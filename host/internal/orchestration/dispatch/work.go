package dispatch

import (
	"context"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Recorder takes what happens at a node. It stamps and orders the records of
// one run and may be used by many goroutines. After its first error every
// further call gives that error: the run can no longer be accounted for and
// must end.
type Recorder interface {
	Record(path edn.Value, node string, body journal.Body) error
}

// Run is what all calls of one run share.
type Run struct {
	ID       string
	Seed     int64
	Trace    edn.Value
	Recorder Recorder
	// Grant is what the roles of the caller permit under the configuration; nil
	// permits no effect.
	Grant *policy.Grant
	// Explain has the records of calls show what is known of every candidate.
	Explain bool
	// Base ends with the run, by cancel or deadline, but not when a sibling
	// node fails: a call that must not be repeated is awaited under it.
	Base context.Context
	// Overriding is why the caller may not replace the system prompts of the
	// configuration; nil: he may.
	Overriding *contract.Error
	// Account is the budget of the run; nil if nothing in it is counted. AtLeast
	// lets calls of unknown price through (BUD-007).
	Account *budget.Account
	AtLeast bool
	// Host are the scopes of the host itself, which pay for what no caller asked
	// for; empty: nothing counts it.
	Host budget.Chain
	// Shadow tells that nobody sees anything of the run (see Trials).
	Shadow bool
	// Grading tells that the run asks a judge for one verdict on a labelled answer:
	// its call is a vote to whoever counts, and neither heeds nor moves the breaker
	// of the judge, which may be open because of just these verdicts.
	Grading bool
}

// Work is one call or tool node with its slots filled and its policy merged.
type Work struct {
	Op     string // "call" or "tool"
	Node   string
	Path   edn.Value
	Intent string
	ToolID string
	Policy *CallPolicy

	Input   edn.Value
	System  string
	Coerced []edn.Value // where the text of a slot was taken
	// Foreign tells that a capability wrote the node, in a plan that it answered
	// with: its system prompt is nobody's who may have one.
	Foreign bool

	// Unmarked is why no language model may read the input: a slot without a mark
	// puts a result into its system prompt (PRM-002). Nil: any may.
	Unmarked *contract.Error

	// Deadline ends the node; zero means that only the run bounds it.
	Deadline time.Time
	// Wall tells that the deadline is the end of the time that the budget of the
	// node gives.
	Wall  bool
	Stack []string
	// Budget is the scopes that count what the node does, its own last; empty:
	// nothing does.
	Budget budget.Chain
	// Deepest is how deep plans, maps and host calls may nest within it.
	Deepest contract.Limit
	// Flow takes the text of the answer out of the run; nil: nobody follows it.
	Stream *TextStream

	// Begun is called once the first attempt is recorded, before it is made.
	Begun func()
	// Around is asked about what surrounds the node in its plan. Nil means
	// that there is nothing: no slots, and no plan is taken as an answer.
	Around Surroundings
}

// Surroundings is the place of a call in its plan.
type Surroundings interface {
	// Env gives the slots that the node sees, to conditions that read them.
	Env() edn.Value
	// Plan takes a plan that a capability answered with. It refuses the plan, or
	// returns the function that walks it.
	Plan(a PlanAnswer) (walk func(ctx context.Context) Child, err *contract.Error)
}

// PlanAnswer is a plan as a capability gave it.
type PlanAnswer struct {
	Attempt  int
	CapID    string
	Plan     edn.Value
	Bindings edn.Value
	// Flow makes the way of text of the node whose answer the plan gives; it
	// gives nil if nobody follows.
	Stream func(key string) *TextStream
}

// Child is what became of a plan that was walked.
type Child struct {
	Out      edn.Value
	Run      edn.Value // the public account of it
	Err      *contract.Error
	DoneOnce bool // it did an effect that must not be repeated
}

// Result is how a node ended: with an accepted answer, or with Err. What an
// attempt gave is that of the accepted one, with Err of the last.
type Result struct {
	CapID    string
	Attempt  int
	Attempts []Attempt
	// Outscored are the attempts of a tournament whose answers were accepted and not the best.
	Outscored []int
	Response  edn.Value // the envelope
	Out       edn.Value
	Meta      edn.Value
	Usage     edn.Value
	PlanRun   edn.Value // nil unless the answer was a plan
	Verdict   quality.Verdict
	Judged    bool // any gate ran
	Degraded  []policy.Rejection
	DoneOnce  bool      // an effect of class once was or may have been done
	Findings  edn.Value // of the gates that refused the last answer
	Err       *contract.Error

	stream *attemptStream // of the attempt
}

// Attempt is one call as the details of a failure list it.
type Attempt struct {
	CapID   string
	Failure string // type, empty for the accepted one
	Latency time.Duration
	Cost    edn.Value // nil if unknown
}

func (a Attempt) value() edn.Value {
	var b edn.MapBuilder
	b.Key("cap/id", journal.Keyword(a.CapID))
	if a.Failure != "" {
		b.Key("type", journal.Keyword(a.Failure))
	}
	b.Key("latency-ms", edn.Int(a.Latency.Milliseconds()))
	if !a.Cost.IsNil() {
		b.Key("cost-usd", a.Cost)
	}
	return b.Map()
}
