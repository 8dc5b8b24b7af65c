package dispatch

import (
	"context"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/interrupt"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stream"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Recorder writes the records of one run, stamped and in order. It is safe for
// concurrent use. After its first error every call of Record returns that error: the
// run cannot be recorded any more and must end.
type Recorder interface {
	Record(path edn.Value, node string, body journal.Body) error
	// Sync returns when all records so far are durable. An error ends the run.
	Sync() error
}

// Run holds what all calls of one run share.
type Run struct {
	ID      string
	Epoch   int    // number of times that it was started or resumed
	Session string // empty: none
	// Principal is the caller, Permits are the operations that plugins check and
	// the caller may do. Both are sent to capabilities with each call.
	Principal string
	Permits   []string
	// Behalf names the conversation and turn on behalf of which its agents run; zero:
	// not known.
	Behalf   Behalf
	Seed     int64
	Trace    edn.Value
	Recorder Recorder
	// Grant holds the effects that the roles of the caller permit; nil permits
	// none.
	Grant *policy.Grant
	// Explain adds the figures of every candidate to the records.
	Explain bool
	// Base ends with the run, by cancel or deadline, but not when a sibling node
	// fails. Calls that must not be repeated run under it.
	Base context.Context
	// Overriding is the reason why the caller may not replace the system prompts of
	// the configuration; nil: it may.
	Overriding *contract.Error
	// Account is the budget of the run; nil if nothing in it is counted. AtLeast
	// allows calls of unknown price (BUD-007).
	Account *budget.Account
	AtLeast bool
	// Host holds the budget scopes of the host, which pay for calls that no caller
	// requested; empty: they are not counted.
	Host budget.Chain
	// Shadow marks a run whose results are not used (see Trials).
	Shadow bool
	// Interrupts are the questions of the run to people; nil: it cannot ask any.
	Interrupts *interrupt.Table
	// Fill marks a run that replays another one; nil: it does not.
	Fill *Fill
	// Secrets collects the secrets of answers, and restores those that are masked in
	// records; nil: no schema marks any.
	Secrets *journal.Mask
	// Asked is the hash of the request if this run is evaluated for a host call of a
	// plugin; empty for other runs.
	Asked string
	// Grading marks a run that asks a judge for one verdict on a labelled answer.
	// Its call is budgeted as a vote and bypasses the breaker of the judge, which
	// may be open because of such verdicts.
	Grading bool
}

// NewTextStream returns the stream of the answer node of the run; see
// [stream.New]. If tell is set, it gets the text instead of the recorder.
func (r *Run) NewTextStream(clock Clock, path edn.Value, node, key string, pace *stream.Pace, live *stream.Live,
	tell func(journal.Body)) *stream.Text {
	if tell == nil {
		// The error can be ignored: the recorder returns it again at its next record,
		// which ends the run.
		tell = func(body journal.Body) { _ = r.Recorder.Record(path, node, body) }
	}
	return stream.New(tell, clock, key, pace, live)
}

// Work is one call or tool node with its slots filled and its policy merged. Stack holds
// the capabilities that led to this call, outermost first.
type Work struct {
	Op     string // "call" or "tool"
	Node   string
	Path   edn.Value
	Intent string
	ToolID string
	Policy *CallPolicy

	Input   edn.Value
	System  string
	Coerced []edn.Value // where text was converted for a slot
	// Foreign marks a node from a plan that a capability returned: it may not
	// replace the system prompt.
	Foreign bool
	// Overrides marks a node that may replace the system prompt for every caller: the
	// plugin that returned its plan is permitted to.
	Overrides bool

	// Denied is the reason why the caller may not use the intent; nil: it may.
	Denied *contract.Error
	// Unmarked is the reason why the input may not lead to a language model: an
	// unmarked slot puts a result into the system prompt (PRM-002). Nil: it may.
	Unmarked *contract.Error

	// Deadline of the node; zero means that only the run bounds it.
	Deadline time.Time
	// Wall reports that the deadline comes from the wall-clock budget of the node.
	Wall  bool
	Stack []string
	// Budget holds the scopes that count the node's spending, its own last; empty:
	// nothing is counted.
	Budget budget.Chain
	// Deepest limits the nesting of plans, maps and host calls.
	Deepest request.Limit
	// Stream forwards the text of the answer; nil: the node is not streamed.
	Stream *stream.Text

	// Past holds the records of the node from before the run was resumed; nil: none.
	Past *journal.Place
	// Replay marks a strict replay: nothing may be done that is not recorded in Past
	// (JRN-050).
	Replay bool
	// Recorded holds the records of the node in the replayed run; nil: none, or the run
	// has no Fill.
	Recorded *journal.Place
	// SecretMissing is set if a secret in the input is masked: no call can be made, but
	// attempts with a recorded end are still taken from the record.
	SecretMissing bool
	// Begun is called after an attempt is recorded and before it is made.
	Begun func()
	// Around gives access to the surrounding plan. Nil: there are no slots, and
	// plan answers are rejected.
	Around Surroundings
}

// Surroundings is the environment of a call in its plan.
type Surroundings interface {
	// Env returns the slots that conditions of the node may read.
	Env() edn.Value
	// Plan accepts a plan answer and returns the function that runs it, or an
	// error.
	Plan(ctx context.Context, a PlanAnswer) (walk func(ctx context.Context) Child, err *contract.Error)
}

// PlanAnswer is a plan as returned by a capability.
type PlanAnswer struct {
	Attempt  int
	CapID    string
	Plan     edn.Value
	Bindings edn.Value
	// Stream returns the stream of the plan's answer node; nil if the run is not
	// streamed.
	Stream func(key string) *stream.Text
}

// Child is the result of running a plan answer.
type Child struct {
	Out      edn.Value
	Run      edn.Value // its public record
	Err      *contract.Error
	DoneOnce bool // it did an effect of recovery class once
}

// Result describes how a node ended: with an accepted answer, or with Err. The fields
// of an attempt are those of the accepted attempt or, with Err, of the last one. Degraded
// are the candidates before the accepted one that were rejected for their state, such as a
// missing key.
type Result struct {
	CapID    string
	Attempt  int
	Attempts []Attempt
	// Outscored are the accepted attempts of a tournament that did not win.
	Outscored []int
	Response  edn.Value // the envelope
	Out       edn.Value
	Meta      edn.Value
	Usage     edn.Value
	PlanRun   edn.Value // nil unless the answer was a plan
	Verdict   quality.Verdict
	Judged    bool // any gate ran
	Degraded  []policy.Rejection
	Decided   bool      // Err was decided for a call whose outcome is unknown
	DoneOnce  bool      // an effect of class once was or may have been done
	Findings  edn.Value // of the gates that refused the last answer
	Err       *contract.Error
	// Unbound is set if the configuration lacks every candidate, or the tool, of the node: the
	// reason. It is nil if rights or the input prevent the call.
	Unbound *contract.Error

	stream *stream.Attempt // of the attempt
}

// Attempt summarizes one attempt of a node, for its Result and the details of its failure.
type Attempt struct {
	CapID   string
	Failure string // type, empty for the accepted one
	Latency time.Duration
	Cost    edn.Value // nil if unknown
	// Down reports that the call gave no answer, for a cause other than the request or a lost race.
	Down bool
}

func (a Attempt) value() edn.Value {
	var b edn.MapBuilder
	b.Key("cap/id", journal.Keyword(a.CapID))
	if a.Failure != "" {
		b.Key("type", journal.Keyword(a.Failure))
	}
	b.Key("latency-ms", edn.Int(a.Latency.Milliseconds()))
	b.Opt("cost-usd", a.Cost)
	return b.Map()
}
