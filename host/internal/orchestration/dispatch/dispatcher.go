package dispatch

import (
	"context"

	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/funds"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/learned"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
)

// Dispatcher executes the nodes of one configuration.
type Dispatcher struct {
	Executor Executor
	Registry *registry.Registry
	Checks   *quality.Set
	Clock    Clock
	// Prompts are composed for language models; nil: prompts have no layers.
	Prompts *prompt.Book
	// Stats holds breakers and statistics of candidates; nil: all breakers stay
	// closed and the declared order is used.
	Stats *stats.Table
	// Learned holds the outcomes by which the dispatch policy :learned orders candidates;
	// nil: that policy keeps the declared order.
	Learned *learned.Book
	// Grades caches the grades of judges; nil: nothing is cached.
	Grades *Grades
	// Calibrations returns the measured quality of judges; nil: no judge is
	// measured.
	Calibrations Calibrations
	// Observer is called for every operation; nil: none.
	Observer Observer
}

// anchorsGate is the gate name in reservations for verdicts on labelled
// answers.
const anchorsGate = "judge/anchors"

// Serve executes one node and records each step. It blocks until an answer is
// accepted or the node has failed, which sets Err of the result. ctx cancels it.
func (d *Dispatcher) Serve(ctx context.Context, run *Run, w *Work) *Result {
	o := new(operation)
	if run.Grading && len(w.Stack) == 0 { // a verdict on a labelled answer bypasses the breaker of the judge
		o.init(d, run, w, funds.ForVote, anchorsGate)
		o.candidates.may.unguarded = true
	} else {
		o.init(d, run, w, funds.ForAttempt, "")
	}
	o.search = search{n: &o.node, candidates: &o.candidates, machine: &o.machine}
	o.delays.n = &o.node
	as := &o.attempts
	as.n, as.c, as.search = &o.node, &o.caller, &o.search
	as.result.Attempts = as.list[:0]
	o.serve(ctx)
	return &as.result
}

// condition returns the current condition of a capability.
func (d *Dispatcher) condition(capID string) stats.Condition {
	if c, ok := d.Executor.(stats.Conditions); ok {
		return c.Condition(capID)
	}
	return stats.Condition{}
}
