package rescore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Store stores records and reads anchors. Its methods may block on a disk.
type Store interface {
	// Record returns the record of a judge, nil without an error if it was never
	// measured.
	Record(judge string) (*calibration.Record, error)
	// Keep replaces the record atomically.
	Keep(r calibration.Record) error
	// Anchors reads a file of labelled answers.
	Anchors(file string) (calibration.Anchors, error)
}

// Settings are the dependencies of a Rescorer. All are required except Tell and
// Believe.
type Settings struct {
	Clock dispatch.Clock
	Store Store
	// Random returns a number in [0, 1).
	Random func() float64
	// Tell is called with the notice of each measurement and failure.
	Tell func(stats.Notice)
	// Believe is called with each new record after it is stored.
	Believe func(j *registry.Judge, r calibration.Record)
}

// Config is the part of the configuration in force that a Rescorer needs.
type Config struct {
	Registry *registry.Registry
	// Used are the judges that grade answers of an intent.
	Used []string
	// Ask performs the acts.
	Ask Ask
}

// Rescorer measures the judges of a configuration, and measures them again when that
// is due. New makes one.
type Rescorer struct {
	s Settings

	mu      sync.Mutex
	config  Config
	version int // of the configuration
	stopped bool
	judges  map[string]*state
	wake    context.CancelFunc // ends the wait of the loop; nil: it does not wait
}

// state is the state of one judge besides its record.
type state struct {
	early    float64   // see calibration.Record.Due
	from     time.Time // no measurement starts before
	failures int       // consecutive
	retryAt  time.Time // backoff: no retry before
	failed   time.Time
	err      *contract.Error // the last failure
	model    string          // model that graded but was not measured; empty: none

	seen    bool                // the loop has read the record
	record  *calibration.Record // as last read; nil: none
	readErr error               // why it cannot be read

	busy      bool
	cancel    context.CancelCauseFunc // cancels the running measurement
	why       calibration.Why
	done, all int
}

// Causes of canceled measurements.
var (
	errReconfigured = contract.Errorf("canceled", "the configuration changed while the judge was measured").
			WithHint("measure it again")
	errStopped = contract.Errorf("runtime/draining", "the host is going down")
)

// New returns a Rescorer without judges.
func New(s Settings) *Rescorer {
	if s.Tell == nil {
		s.Tell = func(stats.Notice) {}
	}
	if s.Believe == nil {
		s.Believe = func(*registry.Judge, calibration.Record) {}
	}
	return &Rescorer{s: s, judges: map[string]*state{}}
}

// Configure sets another configuration. It cancels running measurements; due
// ones start after a random delay.
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
		st.from = now.Add(startDelay(j.Recheck, r.s.Random()))
		st.failures, st.retryAt, st.err = 0, time.Time{}, nil
		r.judges[name] = st
	}
	for _, st := range before {
		if st.cancel != nil {
			st.cancel(errReconfigured)
		}
	}
	r.wakeLoop()
}

// wakeLoop ends the wait of the loop. r.mu must be held.
func (r *Rescorer) wakeLoop() {
	if r.wake != nil {
		r.wake()
	}
}

// Stop cancels running measurements and rejects new ones. It does not wait.
func (r *Rescorer) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	for _, st := range r.judges {
		if st.cancel != nil {
			st.cancel(errStopped)
		}
	}
	r.wakeLoop()
}

// Served records that judge gave a grade with model, so that a measurement is due. The
// caller has checked that the calibration record of judge does not cover model. Unknown
// judges are ignored. Served does not block.
func (r *Rescorer) Served(judge, model string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.judges[judge]
	if st == nil || st.model == model {
		return
	}
	st.model = model
	r.wakeLoop()
}

// pollInterval is the time after which the loop reads records again, because
// another process may have measured a judge.
const pollInterval = time.Minute

// Run measures judges when they are due, one after another. It blocks until ctx ends or
// Stop is called.
func (r *Rescorer) Run(ctx context.Context) {
	for ctx.Err() == nil {
		next, ok := r.next(ctx)
		if !ok {
			return
		}
		if next != nil {
			r.remeasure(ctx, next)
		}
	}
}

// dueJudge is a judge whose measurement is due.
type dueJudge struct {
	judge *registry.Judge
	st    *state
	why   calibration.Why
}

// next waits for a due judge; nil: the wait was interrupted. ok is false when
// the loop must end.
func (r *Rescorer) next(ctx context.Context) (_ *dueJudge, ok bool) {
	r.mu.Lock()
	version := r.version
	waiting, wake := context.WithCancel(ctx)
	defer wake()
	r.wake = wake // every later change ends the wait
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
	wait := pollInterval
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

// first returns the judge that is due first, and the time at which it is due; nil:
// none.
func (r *Rescorer) first() (first *dueJudge, at time.Time) {
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
			first, at = &dueJudge{j, st, why}, due
		}
	}
	return first, at
}

// found stores the record of a judge in its state. It returns the time at which the
// next measurement is due, and its reason; why is empty if there is none.
func (r *Rescorer) found(j *registry.Judge, rec *calibration.Record, err error) (
	st *state, due time.Time, why calibration.Why,
) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if st = r.judges[j.Name]; st == nil {
		return nil, due, ""
	}
	st.seen, st.record, st.readErr = true, rec, err
	if st.busy || rec == nil || err != nil || j.Anchors == "" || rec.Other(j) {
		return st, due, ""
	}
	due, why = st.due(j, rec)
	return st, due, why
}

// due returns the time of the next measurement of a judge, and its reason. r.mu must
// be held.
func (st *state) due(j *registry.Judge, rec *calibration.Record) (time.Time, calibration.Why) {
	at, why := rec.Due(j.Recheck, st.early), calibration.ByAge
	if st.model != "" && rec.Knows(st.model) {
		st.model = "" // measured in the meantime
	}
	if st.model != "" {
		// Limit measurements for a provider that keeps changing the model name.
		soon := time.Time{}
		if last := rec.Last(calibration.ByModel); !last.IsZero() {
			soon = last.Add(j.Recheck / 7)
		}
		if soon.Before(at) {
			at, why = soon, calibration.ByModel
		}
	}
	for _, not := range []time.Time{st.from, st.retryAt} {
		if at.Before(not) {
			at = not
		}
	}
	return at, why
}

// remeasure measures a due judge.
func (r *Rescorer) remeasure(ctx context.Context, t *dueJudge) {
	_, err := r.measure(ctx, t.judge.Name, Options{Why: t.why, slow: true})
	if err == nil || ctx.Err() != nil {
		return
	}
	now := r.s.Clock.Now()
	e := contract.AsError(err)
	r.mu.Lock()
	if errors.Is(err, errReconfigured) || errors.Is(err, errStopped) || errors.Is(err, errBusy) ||
		r.judges[t.judge.Name] != t.st {
		r.mu.Unlock()
		return
	}
	t.st.failures++
	t.st.failed, t.st.err = now, e
	t.st.retryAt = now.Add(backoff(t.judge.Recheck, t.st.failures, r.s.Random()))
	again := t.st.retryAt
	r.mu.Unlock()
	r.tell(t.judge, stats.EventRescoreFailed, "", edn.MustMap(
		edn.K("cause"), edn.K(string(t.why)), edn.K("type"), edn.K(e.Type), edn.K("again"), inst(again),
		edn.K("why"), edn.Text("the next try is at "+again.UTC().Format(time.RFC3339)+
			", and until then the last record is in force: "+e.FullMessage())))
}

func inst(t time.Time) edn.Value { return edn.Inst(t.UTC().Truncate(time.Millisecond)) }

// tell sends a notice about a judge.
func (r *Rescorer) tell(j *registry.Judge, event, capID string, details edn.Value) {
	r.mu.Lock()
	reg := r.config.Registry
	r.mu.Unlock()
	n := stats.Notice{
		At:      r.s.Clock.Now(),
		Event:   event,
		CapID:   capID,
		Intent:  j.Intent,
		Details: details.AssocKey("judge", edn.Text(j.Name)),
	}
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

// Options configure a measurement.
type Options struct {
	// File holds the anchors; empty: the file of the judge.
	File string
	// Why is the reason of the measurement.
	Why calibration.Why
	// Reset makes this measurement the baseline of later ones.
	Reset bool
	// Parallel and Deadline: see Measurement.
	Parallel int
	Deadline time.Duration

	slow bool
}

// errBusy reports that the judge is being measured.
var errBusy = errors.New("the judge is being measured")

// Score measures a judge on request and waits for the result. It returns not-found for
// an unknown judge, runtime/overloaded if the judge is being measured, invalid-request
// without anchors, runtime/starting before Configure, runtime/draining after Stop,
// canceled if Configure is called meanwhile, or the error of the measurement.
func (r *Rescorer) Score(ctx context.Context, judge string, o Options) (Outcome, error) {
	return r.measure(ctx, judge, o)
}

// measure measures a judge and stores the record. It fails if another call
// measures the judge.
func (r *Rescorer) measure(ctx context.Context, judge string, o Options) (Outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	j, st, c, err := r.claim(judge, o, cancel)
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
	st.failures, st.retryAt, st.err = 0, time.Time{}, nil
	st.seen, st.record, st.readErr = true, &out.Record, nil
	r.mu.Unlock()
	if out.byOther {
		return out, nil
	}
	r.s.Believe(j, out.Record)
	r.tell(j, stats.EventRescored, out.Record.Capability, out.noticeDetails())
	return out, nil
}

// claim marks a judge as busy.
func (r *Rescorer) claim(judge string, o Options, cancel context.CancelCauseFunc) (
	*registry.Judge, *state, Config, error,
) {
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
		return nil, nil, c, contract.Errorf("not-found", "there is no judge %q", judge).
			WithHint("\"ferment judge list\" lists the judges").
			DidYouMean(contract.Nearest(judge, c.Registry.Judges()))
	case st.busy:
		return nil, nil, c, contract.Errorf("runtime/overloaded", "judge %s: %w: %d of %d verdicts are complete", judge,
			errBusy, st.done, st.all).
			WithHint("wait for it; \"ferment judge show " + judge + "\" shows its progress")
	}
	st.busy, st.cancel, st.why, st.done, st.all = true, cancel, o.Why, 0, 0
	return j, st, c, nil
}

func (r *Rescorer) release(st *state) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st.busy, st.cancel = false, nil
	r.wakeLoop()
}

// take runs the measurement and stores its record.
func (r *Rescorer) take(ctx context.Context, j *registry.Judge, st *state, c Config, o Options) (Outcome, error) {
	file := o.File
	if file == "" {
		file = j.Anchors
	}
	if file == "" {
		return Outcome{}, contract.Errorf("invalid-request", "judge %s has no anchors", j.Name).
			WithHint("name a file with labelled answers, or write anchors in its block")
	}
	anchors, err := r.s.Store.Anchors(file)
	if err != nil {
		return Outcome{}, err
	}
	m := &Measurement{
		Judge:    j,
		Registry: c.Registry,
		Anchors:  anchors,
		Ask:      c.Ask,
		Parallel: o.Parallel,
		Deadline: o.Deadline,
		Clock:    r.s.Clock,
		Tick: func(done, all int) {
			r.mu.Lock()
			defer r.mu.Unlock()
			st.done, st.all = done, all
		},
	}
	if o.slow {
		m.Parallel, m.Rest = 1, r.rest
	}
	rec, err := m.Take(ctx)
	if err != nil {
		return Outcome{}, err
	}
	if err := context.Cause(ctx); err != nil {
		return Outcome{}, err // the configuration has changed
	}
	return m.Conclude(r.s.Store, rec, o)
}

// After each verdict the loop pauses for restParts times the duration of the verdict, but
// at least leastRest and at most mostRest.
const (
	restParts = 3
	leastRest = 10 * time.Millisecond
	mostRest  = 30 * time.Second
)

// rest pauses after a verdict with the duration took, so that the providers are free for
// other calls most of the time.
func (r *Rescorer) rest(ctx context.Context, took time.Duration) {
	_ = r.s.Clock.Wait(ctx, min(max(restParts*took, leastRest), mostRest))
}

// startDelay is the random delay before due measurements start after a start or
// reload.
func startDelay(recheck time.Duration, u float64) time.Duration {
	most := min(recheck/50, 5*time.Minute)
	return time.Duration((0.1 + 0.9*u) * float64(most))
}

// backoff returns the wait after consecutive failures.
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
