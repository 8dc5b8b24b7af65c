package rescore

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Outcome is the result of a measurement.
type Outcome struct {
	Judge  *registry.Judge
	Record calibration.Record
	Before *calibration.Record // nil without an earlier record
	Spent  Spending
	// Unreadable is the error with which the earlier record could not be read; that record was
	// replaced.
	Unreadable error

	byOther bool // another process measured the judge in the meantime; Record is its record
}

// Value returns the outcome as data: the record with its hash, whether its
// grades count, its faults, and the cost of the verdicts.
func (o Outcome) Value() edn.Value {
	faults := o.Record.Faults(o.Judge.Drift)
	list := make([]edn.Value, len(faults))
	for i, f := range faults {
		list[i] = edn.MustMap(edn.K("fault"), edn.K(f.Name), edn.K("message"), edn.Text(f.Message))
	}
	believed := o.Record.Standing(o.Judge, o.Record.At) == calibration.Believed
	return edn.MustMap(
		edn.K("calibration"), o.Record.Value(), edn.K("hash"), edn.Text(o.Record.Hash()),
		edn.K("believed?"), edn.Bool(believed), edn.K("min-kappa"), figure(o.Judge.MinKappa),
		edn.K("faults"), edn.Vector(list...), edn.K("usage"), o.Spent.Value())
}

// noticeDetails returns the details of the notice on the measurement.
func (o Outcome) noticeDetails() edn.Value {
	r := o.Record
	b := edn.MustMap(edn.K("cause"), edn.K(string(r.Why)), edn.K("kappa"), figure(r.Kappa), edn.K("usage"),
		o.Spent.Value())
	why := "kappa " + text(r.Kappa)
	if o.Before != nil {
		b = b.AssocKey("before", figure(o.Before.Kappa))
		why += ", it was " + text(o.Before.Kappa)
	}
	if r.Model != "" {
		b = b.AssocKey("model", edn.Text(r.Model))
	}
	switch r.Standing(o.Judge, r.At) {
	case calibration.Drifted:
		why += "; that is " + text(o.Judge.Drift) + " or more below the first one, so it is no longer called"
	case calibration.Worthless:
		why += "; " + r.Worthless() + ", so it is no longer called"
	case calibration.Weak:
		why += "; " + text(o.Judge.MinKappa) + " is needed to refuse answers, so its grades only count in the score"
	}
	return b.AssocKey("why", edn.Text(why))
}

// Status is the state of a judge. While Busy is set, Done of All verdicts are complete.
type Status struct {
	Judge    *registry.Judge
	Used     bool // an intent has its answers graded by it
	Standing calibration.Standing
	Record   *calibration.Record // nil without a readable record
	Err      error               // why the record cannot be read

	Due       time.Time // next measurement by the loop; zero: none
	Why       calibration.Why
	Busy      bool // a measurement is running
	Done, All int

	Failures int // consecutive failed measurements
	Failed   time.Time
	Failure  *contract.Error
}

// Status returns the state of all judges of the configuration; nil before Configure.
// It reads the Store. Due is zero for judges that the loop does not measure.
func (r *Rescorer) Status() []Status {
	r.mu.Lock()
	c := r.config
	r.mu.Unlock()
	if c.Registry == nil {
		return nil
	}
	now := r.s.Clock.Now()
	var out []Status
	for _, name := range c.Registry.Judges() {
		j, _ := c.Registry.Judge(name)
		s := StatusOf(j, r.s.Store, slices.Contains(c.Used, name), now)
		r.mu.Lock()
		if st := r.judges[name]; st != nil {
			if s.Record != nil && s.Used && j.Enabled && j.Anchors != "" && !s.Record.Other(j) {
				s.Due, s.Why = st.due(j, s.Record)
			}
			if s.Busy, s.Done, s.All = st.busy, st.done, st.all; s.Busy {
				s.Why = st.why
			}
			s.Failures, s.Failed, s.Failure = st.failures, st.failed, st.err
		}
		r.mu.Unlock()
		out = append(out, s)
	}
	return out
}

// Known returns record and standing of the judges in use, as last read by the loop. It
// does not read the Store and leaves out judges that the loop has not read yet.
func (r *Rescorer) Known() []Status {
	now := r.s.Clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Status
	for _, name := range r.config.Used {
		j, ok := r.config.Registry.Judge(name)
		if st := r.judges[name]; ok && st != nil && st.seen {
			out = append(out, Status{
				Judge:    j,
				Used:     true,
				Record:   st.record,
				Err:      st.readErr,
				Standing: st.record.Standing(j, now),
			})
		}
	}
	return out
}

// StatusOf returns the state of a judge from its record, without a loop.
func StatusOf(j *registry.Judge, store Store, used bool, now time.Time) Status {
	s := Status{Judge: j, Used: used}
	s.Record, s.Err = store.Record(j.Name)
	s.Standing = s.Record.Standing(j, now)
	return s
}

// Doubtful reports whether the judge is in use but its grades do not count
// fully.
func (s Status) Doubtful() bool {
	if !s.Used || !s.Judge.Enabled {
		return false
	}
	return s.Standing == calibration.Drifted || !s.Judge.Plain && s.Standing != calibration.Believed
}

// Value returns the status as data; whole adds the history of measurements.
func (s Status) Value(whole bool) edn.Value {
	var b edn.MapBuilder
	b.Key("judge", edn.Text(s.Judge.Name))
	b.Key("state", edn.K(string(s.Standing)))
	b.Key("used?", edn.Bool(s.Used && s.Judge.Enabled))
	b.Key("plain?", edn.Bool(s.Judge.Plain))
	b.Key("min-kappa", figure(s.Judge.MinKappa))
	b.Key("drift", figure(s.Judge.Drift))
	b.Key("recheck-ms", edn.Int(s.Judge.Recheck.Milliseconds()))
	b.OptText("anchors", s.Judge.Anchors)
	b.OptText("where", s.Judge.Where)
	if s.Err != nil {
		b.Key("unreadable", edn.Text(s.Err.Error()))
	}
	if r := s.Record; r != nil {
		b.Key("kappa", figure(r.Kappa))
		b.Key("at", inst(r.At))
		b.Key("until", inst(r.At.Add(s.Judge.Recheck)))
		b.Key("cap/id", journal.Keyword(r.Capability))
		if r.Baseline.Known() {
			b.Key("first-kappa", figure(r.Baseline.Value))
		}
		b.OptText("model", r.Model)
		if whole {
			b.Key("calibration", r.Value())
		}
	}
	if !s.Due.IsZero() {
		b.Key("due", inst(s.Due))
		b.Key("why", edn.K(string(s.Why)))
	}
	if s.Busy {
		b.Key("measuring", edn.MustMap(edn.K("done"), edn.Int(int64(s.Done)), edn.K("all"), edn.Int(int64(s.All)),
			edn.K("why"), edn.K(string(s.Why))))
	}
	if s.Failure != nil {
		b.Key("failed", edn.MustMap(edn.K("at"), inst(s.Failed), edn.K("times"), edn.Int(int64(s.Failures)),
			edn.K("error"), s.Failure.Value()))
	}
	return b.Map()
}

func text(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func figure(f float64) edn.Value { return edn.MustDecimal(fmt.Sprintf("%sM", text(f))) }
