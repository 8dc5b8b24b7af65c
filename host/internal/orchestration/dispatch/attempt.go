package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/breaker"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/flow"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/funds"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stream"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// attempt is one call to one candidate, from its start to its verdict.
type attempt struct {
	n           *node
	past        *journal.Tried // recorded before the run was resumed; nil: it is made now
	asked       *journal.Tried // it asked people before the run was resumed; else nil
	capability  *registry.Capability
	recovery    contract.RecoveryClass
	number      int
	call        Call
	prompt      prompt.Composed // of a language model, else zero
	limits      limits
	started     time.Time
	stats       *stats.Candidate // nil without statistics
	permit      breaker.Permit
	reported    bool            // the permit was given back
	stream      *stream.Attempt // nil unless the run streams this node
	reservation funds.Reservation

	answer     Answer
	failed     error     // of the call
	firstPiece time.Time // when the first piece of text came; zero: none came or the node is not streamed
	ended      time.Time

	// Used by parallel attempts only.
	command  int // ID of the call
	ctx      context.Context
	cancel   context.CancelFunc
	stop     chan struct{} // closed when another answer was accepted
	lost     bool          // stop was closed before the call ended
	panicked any           // panic value, raised again on the goroutine of the operation

	// Set between the end of the call and the verdict.
	response edn.Value // normalised envelope; nil without an answer
	raw      edn.Value // response before clean-up; nil if clean-up changed nothing
	kind     string    // result type
	meta     edn.Value
	usage    edn.Value
	walk     func(context.Context) Child // runs a plan answer
	late     bool                        // the node ran out of time, not the attempt
	err      *contract.Error
	outcome  flow.Outcome
	label    string // outcome in the record
	crashed  bool
	doneOnce bool
	// inconclusive: the verdict does not count for or against the candidate.
	inconclusive bool
	judging      judging

	// The records of start and end. They are written once and then belong to the
	// journal.
	begin journal.AttemptStarted
	end   journal.AttemptFinished
}

// invoke makes the call with the deadline of the attempt. A call of recovery
// class once is not canceled when a sibling node fails: it runs under the
// context of the run.
func (a *attempt) invoke(ctx context.Context) (Answer, error) {
	if a.past != nil {
		return a.recalled()
	}
	call, l := a.call, a.limits
	if a.recovery == contract.RecoveryOnce {
		ctx = a.n.run.Base
	}
	if !l.end.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, l.end)
		defer cancel()
	}
	if err := ctx.Err(); err != nil {
		return Answer{}, contract.AsError(err)
	}
	if a.capability.Human != nil {
		return a.ask(ctx)
	}
	a.n.run.Interrupts.Calling()
	defer a.n.run.Interrupts.Called()
	if a.stream.Reports() {
		call.OnProgress = func(v edn.Value) { a.show(ctx, stream.LiveProgress, v) }
	}
	if shows := a.n.w.Stream.ShowsValues(&a.n.w.Policy.Policy); shows || a.stream.Live() {
		own, stop := context.WithCancel(ctx)
		defer stop()
		ctx, call.OnDelta = own, func(piece edn.Value) {
			if a.hasLost() {
				return // text of a losing attempt is dropped
			}
			if a.firstPiece.IsZero() {
				a.firstPiece = a.n.now()
			}
			switch {
			case stream.IsText(piece) && a.stream.Live():
				a.stream.Receive(own, piece, stop)
			case shows && stream.IsValue(piece):
				a.show(own, stream.LiveDelta, piece)
			}
		}
	}
	answer, err := a.n.d.Executor.Invoke(ctx, call)
	if broken := a.stream.Failure(); broken != nil {
		return Answer{}, broken
	}
	awaitOwnDeadline(ctx, err)
	return answer, err
}

// hasLost reports whether another answer was accepted.
func (a *attempt) hasLost() bool {
	select {
	case <-a.stop:
		return true
	default:
		return false
	}
}

// show reports progress or a partial value of the capability to the readers of the
// run. It does nothing for an attempt that has lost.
func (a *attempt) show(ctx context.Context, name string, v edn.Value) {
	if a.hasLost() || !a.stream.Reports() {
		return
	}
	a.stream.Report(ctx, journal.Event{
		Name:    name,
		Run:     a.n.run.ID,
		At:      a.n.now(),
		Path:    a.n.w.Path,
		Node:    a.n.w.Node,
		Attempt: a.number,
		CapID:   a.capability.ID,
		Details: edn.MustMap(edn.K("value"), v),
	})
}

// priced reports whether the call may cost money.
func (a *attempt) priced() bool {
	usd, ok := a.capability.Cost.USD.AsNumber()
	return ok && usd.Sign() > 0 || policy.CountsTokens(a.capability)
}

// deadlineSkew is the tolerated clock difference between host and plugin for
// the deadline of a call.
const deadlineSkew = 50 * time.Millisecond

// awaitOwnDeadline waits for the deadline of a call if the plugin has reported
// its expiry slightly early, so that clock skew does not decide which deadline
// is reported.
func awaitOwnDeadline(ctx context.Context, err error) {
	deadline, bounded := ctx.Deadline()
	if bounded && errors.Is(err, contract.OfType("timeout/hard")) && time.Until(deadline) < deadlineSkew {
		<-ctx.Done()
	}
}
