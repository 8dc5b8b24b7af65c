package plugin

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// trial tests an edition beside the current one. A canary answers a share of the calls; a shadow
// receives copies of a share of the calls without effects, and its answers are discarded. In both
// cases the gates judge both editions, and the pass rates decide (SUP-006).
type trial struct {
	edition *edition
	cause   Cause
	swap    Swap

	// Guarded by unit.mu.
	calls    int // number of calls that the new edition could have got
	old, new tally
	err      *contract.Error // the reason why the trial failed
	stop     func()          // stops its timer

	over   chan struct{} // closed when the trial is over
	life   context.Context
	end    context.CancelFunc
	asking sync.WaitGroup // calls to a shadow in flight
}

// tally counts judged answers.
type tally struct{ samples, passes int }

func (t *tally) add(pass bool) {
	t.samples++
	if pass {
		t.passes++
	}
}

// worse reports whether the pass rate t of a new edition is below the rate of the old one by more
// than chance explains. The old rate is smoothed with four passes in five samples, so that a few
// good answers do not count as a perfect rate.
func (t tally) worse(old tally) bool {
	if t.samples == 0 {
		return false
	}
	n := float64(t.samples)
	f := (float64(old.passes) + 4) / (float64(old.samples) + 5)
	slack := min(math.Sqrt(f*(1-f)/n), f/2)
	return float64(t.passes)/n < f-slack
}

// inShare counts a call and reports whether it belongs to the share of the trial. The caller holds
// u.mu.
func (t *trial) inShare() bool {
	t.calls++
	k := float64(t.calls)
	return math.Floor(k*t.swap.Share) > math.Floor((k-1)*t.swap.Share)
}

// try starts the trial of an edition that is ready.
func (u *unit) try(e *edition, swap Swap, cause Cause) *trial {
	t := &trial{edition: e, cause: cause, swap: swap, over: make(chan struct{})}
	t.life, t.end = context.WithCancel(context.Background())
	u.mu.Lock()
	defer u.mu.Unlock()
	u.trial = t
	u.trying.Store(true)
	t.stop = u.host.clock.AfterFunc(swap.Timeout, func() {
		u.mu.Lock()
		todo := u.decide(t)
		u.mu.Unlock()
		todo.run()
	})
	if e.leaving || u.closed {
		u.stopTrial(contract.Errorf("runtime/not-ready", "plugin %s is being stopped", u.name))
	}
	return t
}

// decide ends a trial by comparing pass rates. The caller holds u.mu.
func (u *unit) decide(t *trial) chores {
	if u.trial != t {
		return nil
	}
	if t.new.worse(t.old) {
		u.stopTrial(contract.Errorf("runtime/not-ready",
			"plugin %s: the old edition stays: %d of %d answers of the new one passed their gates, and %d of %d of the old one",
			u.name, t.new.passes, t.new.samples, t.old.passes, t.old.samples).
			WithDetail("samples", edn.Int(int64(t.new.samples))).WithDetail("passes", edn.Int(int64(t.new.passes))))
		return nil
	}
	u.trial = nil
	u.trying.Store(false)
	t.finish()
	return u.succeed(t.edition, t.cause)
}

// stopTrial ends the trial with the error why and stops its edition; it does nothing if there is no
// trial. The caller holds u.mu.
func (u *unit) stopTrial(why *contract.Error) {
	t := u.trial
	if t == nil {
		return
	}
	u.trial, t.err = nil, why
	u.trying.Store(false)
	t.finish()
	u.leave(t.edition, CauseTrial)
	u.wake()
}

func (t *trial) finish() {
	t.stop()
	t.end()
	close(t.over)
}

// outcome waits for the end of a trial and of the edition that lost it. If ctx ends first, the
// trial is stopped and the old edition stays. The error is the reason why the old edition stays.
func (u *unit) outcome(ctx context.Context, t *trial) error {
	u.mu.Lock()
	before := u.current
	u.mu.Unlock()
	select {
	case <-t.over:
	case <-ctx.Done():
		u.mu.Lock()
		if u.trial == t {
			u.stopTrial(contract.Errorf("canceled", "plugin %s: the trial of the new edition was abandoned: %v", u.name,
				context.Cause(ctx)))
		}
		u.mu.Unlock()
		<-t.over
	}
	t.asking.Wait()
	if t.err != nil {
		<-t.edition.over
		u.complain(t.edition, t.err)
		return t.err
	}
	<-before.over
	return nil
}

// sample counts a judged answer of the edition with a number, if a trial is in progress.
func (u *unit) sample(edition int, pass bool) {
	if !u.trying.Load() {
		return
	}
	u.mu.Lock()
	t := u.trial
	var todo chores
	switch {
	case t == nil:
	case edition == t.edition.number:
		t.new.add(pass)
		if t.new.samples >= t.swap.MinSamples {
			todo = u.decide(t)
		}
	case edition == u.current.number:
		t.old.add(pass)
	}
	u.mu.Unlock()
	todo.run()
}

// checkTrial stops the trial if a process of its edition failed. It needs u.mu.
func (u *unit) checkTrial(i *instance) {
	if t := u.trial; t != nil && t.edition == i.edition && !i.leaving {
		if st := i.status.Load(); st.State == Backoff || st.State == Quarantined {
			u.stopTrial(contract.Errorf("runtime/not-ready", "plugin %s: a process of the new edition failed; the old edition stays",
				u.name).WithCause(st.Err))
		}
	}
}

// canary returns the edition on trial if the next call should go to it, else nil. The caller holds
// u.mu.
func (u *unit) canary(session string) *edition {
	t := u.trial
	if t == nil || t.swap.Mode != SwapCanary || session != "" && u.current.settings().Instances.Pin == PinSession ||
		!t.inShare() {
		return nil
	}
	return t.edition
}

// shadowLimit is the timeout of a shadow call without a deadline.
const shadowLimit = time.Minute

// Judged implements dispatch.Trials.
func (c *Client) Judged(capID string, a dispatch.Answer, pass bool) {
	if t, ok := c.targets[capID]; ok {
		t.unit.sample(a.Edition, pass)
	}
}

// Shadowing implements dispatch.Trials.
func (c *Client) Shadowing(capID string) bool {
	t, ok := c.targets[capID]
	return ok && t.unit.trying.Load() && t.unit.shadowing()
}

func (u *unit) shadowing() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.trial != nil && u.trial.swap.Mode == SwapShadow
}

// Shadow implements dispatch.Trials.
func (c *Client) Shadow(call dispatch.Call, judge dispatch.Judge) {
	if t, ok := c.targets[call.CapID]; ok {
		t.unit.shadow(call, judge)
	}
}

// shadow sends a copy of the call to the edition on trial and has the answer
// judged.
func (u *unit) shadow(call dispatch.Call, judge dispatch.Judge) {
	u.mu.Lock()
	defer u.mu.Unlock()
	t := u.trial
	if t == nil || t.swap.Mode != SwapShadow || !t.inShare() {
		return
	}
	s := t.edition.pick("")
	if s == nil {
		return // all processes of the new edition are busy
	}
	t.edition.give(s, "")
	todo := u.spend(s)
	call.OnDelta, call.OnProgress, call.Shadow = nil, nil, true
	t.asking.Go(func() {
		todo.run()
		ctx, cancel := context.WithTimeout(t.life, shadowLimit)
		defer cancel()
		if !call.Deadline.IsZero() {
			var cut context.CancelFunc
			ctx, cut = context.WithDeadline(ctx, call.Deadline)
			defer cut()
		}
		response, err := s.invoke(ctx, call, t.edition.settings().Health.Timeout)
		u.exit(s)
		if err != nil {
			if isPluginFault(err) {
				u.sample(t.edition.number, false)
			}
			return
		}
		pass, counts := judge(ctx, dispatch.Answer{
			Response: response, Plugin: u.name, Edition: t.edition.number, Generation: s.incarnation, Binary: s.binary,
		})
		if counts && ctx.Err() == nil {
			u.sample(t.edition.number, pass)
		}
	})
}

// isPluginFault reports whether an error counts as a failed sample of the program that was called.
func isPluginFault(err error) bool {
	e := contract.AsError(err)
	return e.Source == contract.SourcePlugin && e.Class != contract.ClassStop && e.Class != contract.ClassFinal
}

// Swap replaces the current edition of a plugin by a new one with the same
// settings, which starts a changed binary. The new program must have the same
// description as the old one, except for its version. Settings.Swap decides
// whether a trial precedes. Swap returns nil when the new edition has replaced the
// old one and the old processes have ended, or at the end of ctx if they are still
// ending; otherwise the reason why the old edition stays. The transitions carry
// cause: [CauseSwap] for an operator, [CauseQuality] for a remediation.
func (s *Supervisor) Swap(ctx context.Context, plugin string, cause Cause) error {
	u, err := s.unit(plugin)
	if err != nil {
		return err
	}
	u.mu.Lock()
	tried, before, orders := u.trial != nil, u.current, u.orders
	u.mu.Unlock()
	if tried {
		return contract.Errorf("runtime/not-ready", "plugin %s: another edition is on trial", plugin)
	}
	settings := before.settings()
	settings.Described = edn.Nil() // the version may differ; the other fields are compared below
	p, err := s.Prepare(ctx, Change{Cause: cause, Replace: []Settings{settings}})
	if err != nil {
		return err
	}
	st := p.staged[0]
	u.mu.Lock()
	st.edition.orders = orders // later orders apply to the new edition too
	u.mu.Unlock()
	if !before.describesLike(st.edition) {
		p.Rollback()
		return &ChangeError{plugin,
			contract.Errorf("runtime/integrity",
				"the new program has another description than the running one").WithHint(approveHint(plugin))}
	}
	var finish func(context.Context) error
	p.once.Do(func() {
		finish = s.install(st, cause)
		close(p.done)
		<-s.changing
	})
	return finish(ctx)
}

// describesLike reports whether two editions have the same description, except for the version of
// the plugin. An edition without a description matches any other.
func (e *edition) describesLike(other *edition) bool {
	a, b := e.described.Load(), other.described.Load()
	if a == nil || b == nil {
		return true
	}
	version, same := edn.K("plugin/version"), edn.Text("0.0.0")
	return agree(a.Value.Assoc(version, same), b.Value.Assoc(version, same))
}
