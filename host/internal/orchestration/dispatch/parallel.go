package dispatch

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// loserGrace is the time that a losing attempt has to report its usage after its
// stop channel was closed. The winner's answer waits for it, so it is short: a
// plugin that handles cancellation answers within milliseconds.
const loserGrace = 250 * time.Millisecond

// parallelCalls are the calls of a race, hedge or tournament. Each runs on a goroutine
// of its own; all else is done on the goroutine of the operation.
type parallelCalls struct {
	clock    Clock
	arrivals chan *attempt
	running  []*attempt
	recalled []*attempt     // whose end is recorded; they are not called
	stopping sync.WaitGroup // of losers
}

// call starts the call of an attempt.
func (b *parallelCalls) call(ctx context.Context, a *attempt) {
	a.stop = make(chan struct{})
	a.call.Stop = a.stop
	if a.past != nil {
		a.answer, a.failed = a.recalled()
		b.recalled = append(b.recalled, a)
		return
	}
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
		a.answer, a.failed = a.invoke(a.ctx)
	}()
}

// wait blocks until a call ends and returns the attempts that have ended, in the order
// of their start, or nil if the timer fires first. It panics with the value of a call
// that panicked.
func (b *parallelCalls) wait(fires <-chan struct{}) []*attempt {
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
func (b *parallelCalls) stop(a *attempt) {
	close(a.stop)
	if a.past != nil {
		a.lost = lostRace(a.past) // else it had failed before
		return
	}
	b.stopping.Go(func() {
		if b.clock.Wait(a.ctx, loserGrace) == nil {
			a.cancel()
		}
	})
}

// stopAll cancels all running calls and waits for their goroutines.
func (b *parallelCalls) stopAll(settle func(*attempt)) {
	for _, a := range b.running {
		a.cancel()
	}
	for range b.running {
		settle(<-b.arrivals)
	}
	b.running = nil
	b.stopping.Wait()
}

// timer is a wait on a goroutine of its own: of a hedge before its next attempt, or of
// a question to people until its deadline.
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

// timerWithoutTime is a timer that never fires.
func timerWithoutTime(id int) *timer {
	done := make(chan struct{})
	close(done)
	return &timer{id: id, off: func() {}, done: done}
}

// end stops the timer. t may be nil.
func (t *timer) end() {
	if t != nil {
		t.off()
		<-t.done
	}
}

// fired returns the channel that is closed when the timer fires; nil if t is nil.
func (t *timer) fired() <-chan struct{} {
	if t == nil {
		return nil
	}
	return t.fires
}
