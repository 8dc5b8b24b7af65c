package rescore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Store keeps records and reads anchors. Its methods may block on a disk.
type Store interface {
	// Record is that of a judge, nil without an error if it was never measured.
	Record(judge string) (*calibration.Record, error)
	// Keep replaces it: whole, or not at all.
	Keep(r calibration.Record) error
	// Anchors reads a file of labelled answers.
	Anchors(file string) (calibration.Anchors, error)
}

// Settings are what a Rescorer works with. All are required but Tell and Believe.
type Settings struct {
	Clock dispatch.Clock
	Store Store
	// Random draws from [0, 1).
	Random func() float64
	// Tell is told what was measured and what could not be.
	Tell func(dispatch.Notice)
	// Believe is told of each new record, when it is kept.
	Believe func(j *registry.Judge, r calibration.Record)
}

// Config is what a Rescorer needs to know of the configuration in force.
type Config struct {
	Registry *registry.Registry
	// Used are the judges that intents have answers graded by.
	Used []string
	// Ask performs the acts.
	Ask Ask
}

// Rescorer keeps judges measured. New makes one.
type Rescorer struct {
	s Settings

	mu      sync.Mutex
	config  Config
	version int // of the configuration
	stopped bool
	judges  map[string]*state
	wake    context.CancelFunc // ends the wait of the loop; nil: it does not wait
}

// state is what is known of one judge besides its record.
type state struct {
	early    float64   // see calibration.Record.Due
	from     time.Time // nothing is begun before
	failures int       // in a row
	again    time.Time // not before, for them
	failed   time.Time
	err      *contract.Error // the last of them
	model    string          // that graded and was not measured; empty: none

	seen   bool                // what is kept of it was looked at
	record *calibration.Record // that was found; nil: none
	bad    error               // why it cannot be read

	busy      bool
	cut       context.CancelCauseFunc // ends what is under way
	why       calibration.Why
	done, all int
}

// Why a measurement ended that nobody wanted to end.
var (
	errReconfigured = contract.Errorf("canceled", "the configuration changed while the judge was measured").WithHint("measure it again")
	errStopped      = contract.Errorf("runtime/draining", "the host is going down")
)

// New makes a Rescorer that has no judges yet.
func New(s Settings) *Rescorer {
	if s.Tell == nil {
		s.Tell = func(dispatch.Notice) {}
	}
	if s.Believe == nil {
		s.Believe = func(*registry.Judge, calibration.Record) {}
	}
	return &Rescorer{s: s, judges: map[string]*state{}}
}

// Configure puts another configuration in force. Measurements under way end, and what
// is due then is begun a little later, each at a time of its own.
func (r *Rescorer) Configure(c Config) {
	now := r.s.Clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.config = c
	r.version++
	before := r.judges
	r.judges = map[string]*state{}
	for _, name := range c.Registry.Judges() {
		j, _ := c.Registry.Judge(name)
		st := before[name]
		if st == nil {
			st = &state{early: r.s.Random()}
		}
		st.from = now.Add(settle(j.Recheck, r.s.Random()))
		st.failures, st.again, st.err = 0, time.Time{}, nil
		r.judges[name] = st
	}
	for _, st := range before {
		if st.cut != nil {
			st.cut(errReconfigured)
		}
	}
	r.stir()
}

// stir has the loop look again. It is called with the lock.
func (r *Rescorer) stir() {
	if r.wake != nil {
		r.wake()
	}
}

// Stop ends what is under way and refuses what is asked for from now on. It does not
// wait.
func (r *Rescorer) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	for _, st := range r.judges {
		if st.cut != nil {
			st.cut(errStopped)
		}
	}
	r.stir()
}

// Served tells that a model gave a grade as a judge, of which the record of the judge
// does not know. It is quick.
func (r *Rescorer) Served(judge, model string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.judges[judge]
	if st == nil || st.model == model {
		return
	}
	st.model = model
	r.stir()
}

// look is how long the loop goes by what it has seen: a person may measure a judge
// with another process meanwhile.
const look = time.Minute

// Run measures judges when they are due, one after another, until ctx ends or Stop
// is called.
func (r *Rescorer) Run(ctx context.Context) {
	for ctx.Err() == nil {
		next, ok := r.next(ctx)
		if !ok {
			return
		}
		if next != nil {
			r.again(ctx, next)
		}
	}
}

// turn is a judge whose turn it is.
type turn struct {
	judge *registry.Judge
	st    *state
	why   calibration.Why
}

// next waits for a turn; nil: it was woken. Ok is false when there will be none.
func (r *Rescorer) next(ctx context.Context) (_ *turn, ok bool) {
	r.mu.Lock()
	version := r.version
	waiting, wake := context.WithCancel(ctx)
	defer wake()
	r.wake = wake // whatever changes from here on ends the wait
	stopped := r.stopped
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.wake = nil
		r.mu.Unlock()
	}()
	if stopped {
		return nil, false
	}
	first, at := r.first()
	wait := look
	if first != nil {
		wait = min(wait, at.Sub(r.s.Clock.Now()))
	}
	if first == nil || wait > 0 {
		_ = r.s.Clock.Wait(waiting, max(wait, time.Millisecond))
		return nil, ctx.Err() == nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.version != version || r.stopped {
		return nil, !r.stopped
	}
	return first, true
}

// first is whose turn is next, and when that is; nil: nobody's.
func (r *Rescorer) first() (first *turn, at time.Time) {
	r.mu.Lock()
	c := r.config
	r.mu.Unlock()
	for _, name := range c.Used {
		j, ok := c.Registry.Judge(name)
		if !ok || !j.Enabled {
			continue
		}
		rec, err := r.s.Store.Record(name)
		st, due, why := r.found(j, rec, err)
		if why != "" && (first == nil || due.Before(at)) {
			first, at = &turn{j, st, why}, due
		}
	}
	return first, at
}

// found notes what is kept of a judge and tells when it is to be measured again; why
// is empty if it is not.
func (r *Rescorer) found(j *registry.Judge, rec *calibration.Record, err error) (st *state, due time.Time, why calibration.Why) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if st = r.judges[j.Name]; st == nil {
		return nil, due, ""
	}
	st.seen, st.record, st.bad = true, rec, err
	if st.busy || rec == nil || err != nil || j.Anchors == "" || rec.Other(j) {
		return st, due, ""
	}
	due, why = st.due(j, rec)
	return st, due, why
}

// due is when a judge is to be measured again, and why. It is called with the lock.
func (st *state) due(j *registry.Judge, rec *calibration.Record) (time.Time, calibration.Why) {
	at, why := rec.Due(j.Recheck, st.early), calibration.ByAge
	if st.model != "" && rec.Knows(st.model) {
		st.model = "" // it was measured meanwhile
	}
	if st.model != "" {
		// A provider that names another model each time must not have the judge
		// measured all the time.
		soon := time.Time{}
		if last := rec.Last(calibration.ByModel); !last.IsZero() {
			soon = last.Add(j.Recheck / 7)
		}
		if soon.Before(at) {
			at, why = soon, calibration.ByModel
		}
	}
	for _, not := range []time.Time{st.from, st.again} {
		if at.Before(not) {
			at = not
		}
	}
	return at, why
}

// again measures a judge whose turn it is.
func (r *Rescorer) again(ctx context.Context, t *turn) {
	_, err := r.measure(ctx, t.judge.Name, Options{Why: t.why, slow: true})
	if err == nil || ctx.Err() != nil {
		return
	}
	now := r.s.Clock.Now()
	e := contract.AsError(err)
	r.mu.Lock()
	if errors.Is(err, errReconfigured) || errors.Is(err, errStopped) || errors.Is(err, errBusy) || r.judges[t.judge.Name] != t.st {
		r.mu.Unlock()
		return
	}
	t.st.failures++
	t.st.failed, t.st.err = now, e
	t.st.again = now.Add(backoff(t.judge.Recheck, t.st.failures, r.s.Random()))
	again := t.st.again
	r.mu.Unlock()
	r.tell(t.judge, dispatch.EventRescoreFailed, "", edn.MustMap(
		edn.K("cause"), edn.K(string(t.why)), edn.K("type"), edn.K(e.Type), edn.K("again"), inst(again),
		edn.K("why"), edn.Text("it is tried again at "+again.UTC().Format(time.RFC3339)+", and until then what was measured before holds as long as it may: "+e.FullMessage())))
}

func inst(t time.Time) edn.Value { return edn.Inst(t.UTC().Truncate(time.Millisecond)) }

// tell says what became of a judge.
func (r *Rescorer) tell(j *registry.Judge, event, capID string, details edn.Value) {
	r.mu.Lock()
	reg := r.config.Registry
	r.mu.Unlock()
	n := dispatch.Notice{At: r.s.Clock.Now(), Event: event, CapID: capID, Intent: j.Intent, Details: details.AssocKey("judge", edn.Text(j.Name))}
	if n.CapID == "" {
		n.CapID = j.Capability
	}
	if ids := reg.Candidates(j.Intent); n.CapID == "" && len(ids) > 0 {
		n.CapID = ids[0]
	}
	if c, ok := reg.Capability(n.CapID); ok {
		n.Plugin = c.Plugin
	}
	r.s.Tell(n)
}

// Options say how a judge is measured.
type Options struct {
	// File holds the anchors; empty: those that the judge names.
	File string
	// Why says who or what wants it.
	Why calibration.Why
	// Reset has later measurements held against this one.
	Reset bool
	// Parallel and Deadline are those of Measurement.
	Parallel int
	Deadline time.Duration

	slow bool
}

// errBusy is why a judge is not measured: it is being measured.
var errBusy = errors.New("the judge is being measured")

// Score measures a judge for somebody who waits for it.
func (r *Rescorer) Score(ctx context.Context, judge string, o Options) (Outcome, error) {
	return r.measure(ctx, judge, o)
}

// measure measures a judge, unless somebody does already, and keeps the record.
func (r *Rescorer) measure(ctx context.Context, judge string, o Options) (Outcome, error) {
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	j, st, c, err := r.claim(judge, o, cut)
	if err != nil {
		return Outcome{}, err
	}
	defer r.release(st)
	out, err := r.take(ctx, j, st, c, o)
	switch cause := context.Cause(ctx); {
	case err != nil && cause != nil:
		return Outcome{}, cause
	case err != nil:
		return Outcome{}, err
	}
	r.mu.Lock()
	st.failures, st.again, st.err = 0, time.Time{}, nil
	st.seen, st.record, st.bad = true, &out.Record, nil
	r.mu.Unlock()
	if out.theirs {
		return out, nil
	}
	r.s.Believe(j, out.Record)
	r.tell(j, dispatch.EventRescored, out.Record.Capability, out.news())
	return out, nil
}

// claim makes a judge busy.
func (r *Rescorer) claim(judge string, o Options, cut context.CancelCauseFunc) (*registry.Judge, *state, Config, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.config
	var j *registry.Judge
	ok := false
	if c.Registry != nil {
		j, ok = c.Registry.Judge(judge)
	}
	st := r.judges[judge]
	switch {
	case r.stopped:
		return nil, nil, c, errStopped
	case c.Registry == nil:
		return nil, nil, c, contract.Errorf("runtime/starting", "the host is coming up")
	case !ok || st == nil:
		return nil, nil, c, contract.Errorf("not-found", "there is no judge %q", judge).WithHint("\"ferment judge list\" names those that are there").DidYouMean(contract.Nearest(judge, c.Registry.Judges()))
	case st.busy:
		return nil, nil, c, contract.Errorf("runtime/overloaded", "judge %s: %w: %d of %d verdicts are there", judge, errBusy, st.done, st.all).
			WithHint("wait for it; \"ferment judge show " + judge + "\" tells how far it is")
	}
	st.busy, st.cut, st.why, st.done, st.all = true, cut, o.Why, 0, 0
	return j, st, c, nil
}

func (r *Rescorer) release(st *state) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st.busy, st.cut = false, nil
	r.stir()
}

// take asks for the verdicts and keeps what they come to.
func (r *Rescorer) take(ctx context.Context, j *registry.Judge, st *state, c Config, o Options) (Outcome, error) {
	began := r.s.Clock.Now()
	file := o.File
	if file == "" {
		file = j.Anchors
	}
	if file == "" {
		return Outcome{}, contract.Errorf("invalid-request", "judge %s names no anchors", j.Name).WithHint("name a file with labelled answers, or write anchors in its block")
	}
	anchors, err := r.s.Store.Anchors(file)
	if err != nil {
		return Outcome{}, err
	}
	m := &Measurement{Judge: j, Registry: c.Registry, Anchors: anchors, Ask: c.Ask, Parallel: o.Parallel, Deadline: o.Deadline, Clock: r.s.Clock, Tick: func(done, all int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		st.done, st.all = done, all
	}}
	if o.slow {
		m.Parallel, m.Rest = 1, r.rest
	}
	rec, err := m.Take(ctx)
	if err != nil {
		return Outcome{}, err
	}
	if err := context.Cause(ctx); err != nil {
		return Outcome{}, err // its configuration is not in force any more
	}
	before, err := r.s.Store.Record(j.Name)
	if err != nil {
		before = nil
	}
	out := Outcome{Judge: j, Before: before, Spent: m.Spent()}
	if o.slow && before != nil && before.At.After(began) {
		out.Record, out.theirs = *before, true
		return out, nil
	}
	rec.At, rec.Why = r.s.Clock.Now().UTC().Truncate(time.Second), o.Why
	if o.Reset {
		rec = rec.Anew(before)
	} else {
		rec = rec.Since(before)
	}
	out.Record = rec
	return out, r.s.Store.Keep(rec)
}

// Share of the time in which the loop asks for verdicts: one part of restParts + 1.
const (
	restParts = 3
	leastRest = 10 * time.Millisecond
	mostRest  = 30 * time.Second
)

// rest keeps the loop from competing with those who wait for answers.
func (r *Rescorer) rest(ctx context.Context, took time.Duration) {
	_ = r.s.Clock.Wait(ctx, min(max(restParts*took, leastRest), mostRest))
}

// settle is how long a host waits with what is due when it starts: long enough that
// it has other things behind it, and not the same for all.
func settle(recheck time.Duration, u float64) time.Duration {
	most := min(recheck/50, 5*time.Minute)
	return time.Duration((0.1 + 0.9*u) * float64(most))
}

// backoff is how long to wait after failures in a row.
func backoff(recheck time.Duration, failures int, u float64) time.Duration {
	base := min(max(recheck/1000, time.Second), 5*time.Minute)
	most := max(base, min(recheck/20, 6*time.Hour))
	wait := base
	for range min(failures-1, 32) {
		if wait = min(2*wait, most); wait == most {
			break
		}
	}
	return time.Duration((0.8 + 0.4*u) * float64(wait))
}
