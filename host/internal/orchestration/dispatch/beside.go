package dispatch

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// loserGrace is the time that a losing attempt has to report its usage after it
// was told to stop. The winner's answer waits for it, so it is short: a plugin
// that handles cancellation answers within milliseconds.
const loserGrace = 250 * time.Millisecond

// besides are the calls of a race, hedge or tournament. Each runs on a goroutine
// of its own; all else is done on the goroutine of the operation.
type besides struct {
	clock    Clock
	arrivals chan *attempt
	running  []*attempt
	stopping sync.WaitGroup // of losers
}

// call starts the call of an attempt.
func (b *besides) call(ctx context.Context, a *attempt, invoke func(context.Context, *attempt) (Answer, error)) {
	a.stop = make(chan struct{})
	a.call.Stop = a.stop
	a.ctx, a.cancel = context.WithCancel(ctx)
	b.running = append(b.running, a)
	go func() {
		defer func() { // a panic is passed on with the attempt
			a.panicked = recover()
			a.ended = b.clock.Now()
			select {
			case <-a.stop:
				a.lost = true
			default:
			}
			b.arrivals <- a
		}()
		a.answer, a.err = invoke(a.ctx, a)
	}()
}

// wait returns the attempts that have ended, in the order of their start, or
// none if the timer fires first.
func (b *besides) wait(fires <-chan struct{}) []*attempt {
	var batch []*attempt
	select {
	case a := <-b.arrivals:
		batch = append(batch, a)
	case <-fires:
		return nil
	}
	for more := true; more; {
		select {
		case a := <-b.arrivals:
			batch = append(batch, a)
		default:
			more = false
		}
	}
	slices.SortFunc(batch, func(x, y *attempt) int { return cmp.Compare(x.number, y.number) })
	b.running = slices.DeleteFunc(b.running, func(r *attempt) bool { return slices.Contains(batch, r) })
	for _, a := range batch {
		a.cancel()
		if a.panicked != nil {
			panic(a.panicked)
		}
	}
	return batch
}

// stop closes the stop channel of an attempt and cancels its call if it does not
// end within loserGrace.
func (b *besides) stop(a *attempt) {
	close(a.stop)
	b.stopping.Go(func() {
		if b.clock.Wait(a.ctx, loserGrace) == nil {
			a.cancel()
		}
	})
}

// stopAll cancels all running calls and waits for their goroutines.
func (b *besides) stopAll(settle func(*attempt)) {
	for _, a := range b.running {
		a.cancel()
	}
	for range b.running {
		settle(<-b.arrivals)
	}
	b.running = nil
	b.stopping.Wait()
}

// timer is the wait of a hedge before its next attempt.
type timer struct {
	id    int // of its command
	fires chan struct{}
	off   context.CancelFunc
	done  chan struct{}
}

func startTimer(ctx context.Context, clock Clock, id int, d time.Duration) *timer {
	ctx, cancel := context.WithCancel(ctx)
	t := &timer{id, make(chan struct{}), cancel, make(chan struct{})}
	go func() {
		defer close(t.done)
		if clock.Wait(ctx, d) == nil {
			close(t.fires)
		}
	}()
	return t
}

// end stops the timer. t may be nil.
func (t *timer) end() {
	if t != nil {
		t.off()
		<-t.done
	}
}

// fired returns the channel that is closed when the time is over; nil for nil.
func (t *timer) fired() <-chan struct{} {
	if t == nil {
		return nil
	}
	return t.fires
}

// recordLoser records an attempt that lost. An attempt that failed before it
// was told to stop keeps its failure; a later result counts as usage only.
func (o *operation) recordLoser(a *attempt) {
	r := new(attemptResult)
	a.account(r)
	var sent edn.Value
	switch err := contract.AsError(a.err); {
	case err == nil:
		response, err := contract.CheckResponse(a.answer.Response, o.resultRules(a.capability))
		if err != nil {
			response = a.answer.Response
			if !a.lost {
				r.err, r.label = o.replaceReservedType(r, err), journal.OutcomeError
			}
		}
		r.usage = mapOrNil(response.Key("result").Key("usage"))
	case a.lost:
		sent = err.Details.Key("sent?")
	case err.Type != "canceled":
		o.classifyLostCall(context.Background(), r, err, a.limits, a.ended)
	}
	if r.err == nil {
		r.label = journal.OutcomeCanceled
		r.err = contract.Errorf("race/lost", "node %s: another answer was accepted before that of :%s", o.w.Node,
			a.capability.ID)
		if !sent.IsNil() {
			r.err = r.err.WithDetail("sent?", sent)
		}
	}
	o.recordEnd(r)
	o.settle(&r.reservation, r.settlement())
	o.recordOutcome(r)
	o.listAttempt(r)
}
