package act

import (
	"context"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/interrupt"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stream"
	"github.com/fermenthq/ferment/host/internal/orchestration/eval"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/queue"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// flight is the state of one act in the stages.
type flight struct {
	service *Service
	act     Act
	also    []policy.Caller // act.Also without the rights that the owner of a resumed run has now
	begun   time.Time
	ctx     context.Context // of route and execute
	alone   bool            // it runs on the goroutine of its caller, and its records cannot be followed
	older   bool            // the request had the format of version 0.3
	walled  bool            // the deadline is the wall time of a budget

	// prepare
	request  request.Request
	warnings []edn.Value

	sessionWarnings []edn.Value

	plan      *plan.Plan
	findings  []plan.Finding
	source    string
	bindings  edn.Value
	layer     *policy.Layer
	grant     *policy.Grant
	policies  *eval.PolicyCache // of the shape; nil for a plan of the client's
	shape     *shape            // nil for a plan of the client's
	budget    allowance
	id        string
	seed      int64
	deadline  time.Time
	recorder  *eval.Recorder
	follow    *journal.Cursor
	inside    *eval.Place              // of a request of a plugin; nil for a top-level run
	tell      func(journal.Body)       // receives text of a host call
	past      *journal.History         // of a run that is resumed or replayed; else nil
	resumed   *journal.RunResumed      // still to be recorded; else nil
	rebinds   bool                     // an earlier epoch had another configuration
	asked     *journal.CancelRequested // a cancellation to record at the start
	askedKept bool                     // asked is recorded
	halt      context.CancelCauseFunc  // of the run's context; nil: it cannot be suspended
	stopped   *contract.Error          // the error of a suspended run; else nil
	barred    *contract.Error          // its caller may not act any more; nil: it may
	replay    bool
	recalled  bool            // its past costs are counted
	raised    bool            // its budget may be above that of its intent
	unchecked bool            // the request was checked before, and has lost its secrets
	mask      *journal.Mask   // of secrets in records; nil: no schema marks any
	print     journal.Ref     // the fingerprint of the request without what its session fills
	session   session.Session // when the act was accepted
	key       string          // hash of the idempotency key
	holds     *held           // the key, while the run has it
	attached  *Run            // the run that has the key already
	failed    *failedRun      // the failed run that has the key and is continued; else nil
	cache     caching
	cut       bool   // it was interrupted: its end is not recorded
	closed    bool   // its last record was written, or it is suspended
	unknown   string // calls that may have had their effect, of a run that is canceled
	class     string
	place     *queue.Place     // in the queue; nil: without a queue
	pace      *stream.Pace     // nil unless the run is streamed
	live      *stream.Live     // nil unless the run is streamed
	asks      *interrupt.Table // questions to people
	retryAt   time.Time        // when the failed job is retried; zero: it is not
	after     time.Time        // when it enters the queue, with entry; zero: at once
	entry     queue.Entry
	release   context.CancelFunc // of a shorter deadline; nil: there is none

	// route
	route    routed
	program  *plan.Program
	begunRun bool // the task that starts the run exists

	// execute
	outcome eval.Outcome
	ended   error           // of the run's context
	ending  context.Context // of finalize

	// finalize
	err      *contract.Error
	records  []journal.Record
	account  journal.Account // of the records before the response
	response edn.Value
}

// failedRun is a finished run with the idempotency key of an act, which continues it.
type failedRun struct {
	run  string
	past *journal.History
}

// resumes reports whether the run was started before and is resumed now.
func (f *flight) resumes() bool { return f.past != nil && f.past.Active }

// diverted reports whether the stage must stop without error: another run takes the
// place of the act, or the run is retried later.
func (f *flight) diverted() bool { return f.attached != nil || f.failed != nil || !f.retryAt.IsZero() }

// step is one named part of a stage. compile reads the configuration once; the
// function that it returns runs for every act.
type step struct {
	name    string
	compile func(*Service) (func(*flight) *contract.Error, error)
}

type compiledStep struct {
	name string
	run  func(*flight) *contract.Error
}

type chain []compiledStep

func compile(stage string, steps []step, s *Service) (chain, error) {
	out := make(chain, 0, len(steps))
	for _, st := range steps {
		if st.name == "" || st.compile == nil {
			return nil, contract.Errorf("act/middleware-invalid", "stage %s: a step has no name or no compile function", stage)
		}
		run, err := st.compile(s)
		if err != nil {
			return nil, contract.Errorf("act/middleware-invalid", "stage %s: step %s: %w", stage, st.name, err)
		}
		if run == nil {
			return nil, contract.Errorf("act/middleware-invalid", "stage %s: step %s: compile returned no function", stage, st.name)
		}
		out = append(out, compiledStep{st.name, run})
	}
	return out, nil
}

// without returns the chain without some steps.
func (c chain) without(names ...string) chain {
	return slices.DeleteFunc(slices.Clone(c), func(s compiledStep) bool { return slices.Contains(names, s.name) })
}

// always returns the compile function of a step that needs nothing from the
// configuration.
func always(run func(*flight) *contract.Error) func(*Service) (func(*flight) *contract.Error, error) {
	return func(*Service) (func(*flight) *contract.Error, error) { return run, nil }
}

var prepareSteps = []step{
	{"translate", always(translate)},
	{"validate", compileValidate},
	{"secrets", always(learnSecrets)},
	{"confine", always(confine)},
	{"attach", always(attach)},
	{"session", always(bindSession)},
	{"input", always(checkInput)},
	{"plan", always(readPlan)},
	{"authorize", always(authorize)},
	{"cache", always(lookUp)},
	{"budget", compileBudget},
	{"queue", always(enter)},
	{"accept", compileAccept},
}

// resumeSteps, rebindSteps and recallSteps replace prepareSteps for a run that is resumed.
var resumeSteps = []step{
	{"resume", always(recordResumed)},
	{"settle", always(settleLost)},
	{"replay", always(endReplay)},
	{"stand", always(stand)},
}

// rebindSteps check what is left of a resumed run against the present configuration.
var rebindSteps = []step{
	{"translate", always(translate)},
	{"validate", compileValidate},
	{"secrets", always(learnSecrets)},
	{"input", always(checkInput)},
	{"plan", always(readPlan)},
}

// recallSteps check the rights and the budget of a resumed run.
var recallSteps = []step{
	{"authorize", always(authorize)},
	{"budget", compileBudget},
	{"recall", always(recallCosts)},
}

// replaySteps replace prepareSteps for a strict replay. They count and record nothing.
var replaySteps = []step{
	{"translate", always(translate)},
	{"validate", compileValidate},
	{"input", always(checkInput)},
	{"plan", always(readPlan)},
	{"authorize", always(authorize)},
}

// readSteps is the number of leading steps of prepareSteps that read the request and its
// plan and check the rights of the caller.
const readSteps = 9

var routeSteps = []step{
	{"decide", always(decideRoute)},
	{"link", always(link)},
}

var executeSteps = []step{
	{"evaluate", compileEvaluate},
	{"check-out", always(checkOut)},
}

var finalizeSteps = []step{
	{"status", always(settle)},
	{"retry", compileRetry},
	{"respond", always(respond)},
	{"finish", always(finish)},
}
