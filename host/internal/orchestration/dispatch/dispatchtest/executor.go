package dispatchtest

import (
	"context"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Withdrawn is the piece of a Step that retracts the text before it.
const Withdrawn = "\x00"

// Step is one answer of a capability. After Pieces and Delay, the first field that is
// set of Panic, Hang, Crash, Gone, Err, Raw, Plan and Value gives the answer. The zero
// Step answers with an empty map.
type Step struct {
	// Pieces are texts that are streamed first, each followed by a wait of Gap. The
	// piece Withdrawn retracts those before it.
	Pieces []string
	// Progress and Values are reported before the pieces.
	Progress, Values []edn.Value
	Gap              time.Duration
	Delay            time.Duration
	// Err is returned by the capability itself.
	Err *contract.Error
	// Crash fails the call as if the process had crashed. The state of the capability
	// stays as it is unless After changes it.
	Crash bool
	// Gone: the process exited before the call reached it.
	Gone bool
	// Hang answers only when the call is canceled.
	Hang bool
	// Deaf ignores Call.Stop and ends only with the context of the call.
	Deaf bool
	// OnStop is the answer after Call.Stop is closed; nil: the call ends as
	// canceled.
	OnStop *Step
	// Panic panics in the call, like a defect of the host.
	Panic any
	// Raw is the whole envelope, unchecked.
	Raw edn.Value
	// Plan answers with a plan.
	Plan, Bindings edn.Value
	// Value is the :out of an ordinary answer.
	Value edn.Value
	// Usage and Meta go with Value and Plan.
	Usage, Meta edn.Value
	// After runs before the call returns.
	After func()
}

// Executor is a dispatch.Executor that plays scripts. In the zero value, every
// capability is ready and answers with an empty map.
type Executor struct {
	mu           sync.Mutex
	scripts      map[string]*script
	states       map[string]dispatch.CapState
	changed      chan struct{}
	calls        []dispatch.Call
	begun        []time.Time
	live         int
	most         int
	remediations []Remediation
	near         map[string]stats.Condition
	onRenew      func(capID string, done func(error))
}

// Remediation is a call to a method of stats.Remediator.
type Remediation struct {
	Action, CapID string
	Until         time.Time
}

type script struct {
	steps []Step
	next  int
	cycle bool
	call  func(context.Context, dispatch.Call) Step
}

var (
	_ dispatch.Executor = (*Executor)(nil)
	_ stats.Remediator  = (*Executor)(nil)

	_ stats.Conditions = (*Executor)(nil)
)

// SetCondition sets the condition of a capability.
func (x *Executor) SetCondition(capID string, c stats.Condition) *Executor {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.near == nil {
		x.near = map[string]stats.Condition{}
	}
	x.near[capID] = c
	return x
}

// Condition implements stats.Conditions.
func (x *Executor) Condition(capID string) stats.Condition {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.near[capID]
}

// OnRenew sets the function that handles Renew; without it the next edition
// serves at once.
func (x *Executor) OnRenew(f func(capID string, done func(error))) *Executor {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.onRenew = f
	return x
}

// Renew implements stats.Remediator.
func (x *Executor) Renew(capID string, done func(error)) {
	f := x.recordRemediation(Remediation{Action: "swap", CapID: capID})
	if f != nil {
		f(capID, done)
		return
	}
	st := x.State(capID)
	st.Edition++
	x.SetState(capID, st)
	done(nil)
}

// Restart implements stats.Remediator.
func (x *Executor) Restart(capID string) error {
	x.recordRemediation(Remediation{Action: "restart", CapID: capID})
	return nil
}

// Quarantine implements stats.Remediator.
func (x *Executor) Quarantine(capID, _ string, until time.Time) error {
	x.recordRemediation(Remediation{Action: "quarantine", CapID: capID, Until: until})
	return nil
}

func (x *Executor) recordRemediation(k Remediation) func(string, func(error)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remediations = append(x.remediations, k)
	return x.onRenew
}

// Remediations returns the remediations so far, in order.
func (x *Executor) Remediations() []Remediation {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]Remediation(nil), x.remediations...)
}

func (x *Executor) script(capID string) *script {
	if x.scripts == nil {
		x.scripts = make(map[string]*script)
	}
	s := x.scripts[capID]
	if s == nil {
		s = &script{}
		x.scripts[capID] = s
	}
	return s
}

// On adds steps to the script of a capability. The last step repeats.
func (x *Executor) On(capID string, steps ...Step) *Executor {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.script(capID)
	s.steps = append(s.steps, steps...)
	return x
}

// Cycle makes the script of a capability start again after its last step.
func (x *Executor) Cycle(capID string) *Executor {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.script(capID).cycle = true
	return x
}

// Func computes every step of a capability from the call.
func (x *Executor) Func(capID string, f func(context.Context, dispatch.Call) Step) *Executor {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.script(capID).call = f
	return x
}

// SetState sets the state of a capability and wakes waiting calls of Await.
func (x *Executor) SetState(capID string, st dispatch.CapState) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.states == nil {
		x.states = make(map[string]dispatch.CapState)
	}
	x.states[capID] = st
	if x.changed != nil {
		close(x.changed)
		x.changed = nil
	}
}

// State implements dispatch.Executor.
func (x *Executor) State(capID string) dispatch.CapState {
	x.mu.Lock()
	defer x.mu.Unlock()
	if st, ok := x.states[capID]; ok {
		return st
	}
	return dispatch.CapState{Ready: true}
}

// Await implements dispatch.Executor.
func (x *Executor) Await(ctx context.Context, capID string) error {
	for {
		st := x.State(capID)
		if st.Ready || st.Standby {
			return nil
		}
		if !st.Respawning {
			return contract.Errorf("runtime/not-ready", ":%s does not come back", capID)
		}
		x.mu.Lock()
		if x.changed == nil {
			x.changed = make(chan struct{})
		}
		wait := x.changed
		x.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return contract.AsError(ctx.Err())
		}
	}
}

// Invoke implements dispatch.Executor.
func (x *Executor) Invoke(ctx context.Context, c dispatch.Call) (dispatch.Answer, error) {
	at := x.State(c.CapID) // the instance that takes the call answers it, also after a swap
	answer := dispatch.Answer{
		Plugin:     "scripted",
		Generation: max(1, at.Generation),
		Edition:    at.Edition,
		Binary:     at.Binary,
	}
	work, done := stopping(ctx, c.Stop)
	defer done()
	step := x.take(work, c)
	defer x.leave()
	if step.Deaf {
		work = ctx
	}
	response, err := step.play(work, c)
	if work.Err() != nil && ctx.Err() == nil && step.OnStop != nil {
		response, err = step.OnStop.play(ctx, c)
	}
	switch {
	case step.Gone:
		return dispatch.Answer{}, err
	case err != nil:
		return answer, err
	}
	answer.Response = response
	return answer, nil
}

// stopping returns a context that is canceled when stop is closed, and a function
// that releases it and must be called.
func stopping(ctx context.Context, stop <-chan struct{}) (context.Context, func()) {
	if stop == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(); <-ended }
}

// play executes the step until ctx ends.
func (s Step) play(ctx context.Context, c dispatch.Call) (edn.Value, error) {
	for _, v := range s.Progress {
		if c.OnProgress != nil {
			c.OnProgress(v)
		}
	}
	for _, v := range s.Values {
		if c.OnDelta != nil {
			c.OnDelta(v)
		}
	}
	for _, text := range s.Pieces {
		piece := edn.MustMap(edn.K("kind"), edn.K("text"), edn.K("text"), edn.Text(text))
		if text == Withdrawn {
			piece = edn.MustMap(edn.K("kind"), edn.K("retract"), edn.K("reason"), edn.K("schema/invalid"))
		}
		if c.OnDelta != nil {
			c.OnDelta(piece)
		}
		select {
		case <-time.After(s.Gap):
		case <-ctx.Done():
			return edn.Nil(), contract.AsError(ctx.Err())
		}
	}
	if s.Delay > 0 {
		select {
		case <-time.After(s.Delay):
		case <-ctx.Done():
			return edn.Nil(), contract.AsError(ctx.Err())
		}
	}
	if s.After != nil {
		defer s.After()
	}
	switch {
	case s.Panic != nil:
		panic(s.Panic)
	case s.Hang:
		<-ctx.Done()
		return edn.Nil(), contract.AsError(ctx.Err())
	case s.Crash:
		return edn.Nil(), contract.Errorf("runtime/crashed", "plugin scripted was killed by signal 9 during :%s",
			c.CapID)
	case s.Gone:
		return edn.Nil(), contract.Errorf("runtime/not-ready", "plugin scripted is backoff")
	case s.Err != nil:
		return edn.Nil(), s.Err
	case !s.Raw.IsNil():
		return s.Raw, nil
	}
	return s.response(), nil
}

func (s Step) response() edn.Value {
	var result edn.MapBuilder
	if s.Plan.IsNil() {
		out := s.Value
		if out.IsNil() {
			out = edn.MustMap()
		}
		result.Key("type", edn.K("value"))
		result.Key("out", out)
	} else {
		result.Key("type", edn.K("plan"))
		result.Key("plan", s.Plan)
		result.Opt("bindings", s.Bindings)
	}
	result.Opt("usage", s.Usage)
	var b edn.MapBuilder
	b.Key("result", result.Map())
	b.Opt("invoke/meta", s.Meta)
	return b.Map()
}

func (x *Executor) take(ctx context.Context, c dispatch.Call) Step {
	x.mu.Lock()
	x.calls = append(x.calls, c)
	x.begun = append(x.begun, time.Now())
	x.live++
	x.most = max(x.most, x.live)
	s := x.script(c.CapID)
	if s.call != nil {
		f := s.call
		x.mu.Unlock()
		return f(ctx, c)
	}
	defer x.mu.Unlock()
	if len(s.steps) == 0 {
		return Step{}
	}
	i := min(s.next, len(s.steps)-1)
	if s.cycle {
		i = s.next % len(s.steps)
	}
	s.next++
	return s.steps[i]
}

func (x *Executor) leave() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.live--
}

// Calls returns all calls so far, in the order of their start.
func (x *Executor) Calls() []dispatch.Call {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]dispatch.Call(nil), x.calls...)
}

// Begun returns the start times of the calls.
func (x *Executor) Begun() []time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]time.Time(nil), x.begun...)
}

// Live returns the number of running calls.
func (x *Executor) Live() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.live
}

// Most returns the maximum number of concurrent calls so far.
func (x *Executor) Most() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.most
}

// Dispatched returns the capabilities of all calls in order.
func (x *Executor) Dispatched() []string {
	calls := x.Calls()
	out := make([]string, len(calls))
	for i, c := range calls {
		out[i] = c.CapID
	}
	return out
}
