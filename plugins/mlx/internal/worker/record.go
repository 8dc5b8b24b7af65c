package worker

import (
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Limits define a crash loop and its pauses.
type Limits struct {
	// Deaths within Window are a crash loop. The first pause is First; each
	// further one is twice as long, at most Longest.
	Deaths                 int
	Window, First, Longest time.Duration
	// Recheck is the interval after which a server that cannot run here is
	// tried again.
	Recheck time.Duration
}

// DefaultLimits returns the limits of the contract, with recheck from the
// configuration.
func DefaultLimits(recheck time.Duration) Limits {
	return Limits{Deaths: 3, Window: 5 * time.Minute, First: time.Minute, Longest: 30 * time.Minute, Recheck: recheck}
}

// Record counts the deaths of all servers of one model: what kills one of them
// usually kills the others.
type Record struct {
	limits Limits
	deaths []time.Time // within the window
	total  int
	loops  int // crash loops in a row
	err    *contract.Error
	until  time.Time
}

// NewRecord returns an empty record.
func NewRecord(l Limits) *Record { return &Record{limits: l} }

// Blocked returns the reason why no server may be started now, nil if one may.
func (r *Record) Blocked(now time.Time) *contract.Error {
	if r.err == nil || !now.Before(r.until) {
		return nil
	}
	return wait(r.err, r.until.Sub(now))
}

// Until returns the time when a server may be started again; zero if now.
func (r *Record) Until(now time.Time) time.Time {
	if r.Blocked(now) == nil {
		return time.Time{}
	}
	return r.until
}

// Deaths returns the number of deaths in total and within the window.
func (r *Record) Deaths(now time.Time) (total, lately int) {
	r.forget(now)
	return r.total, len(r.deaths)
}

// Unavailable records that the server cannot run on this machine.
func (r *Record) Unavailable(now time.Time, err *contract.Error) {
	r.err, r.until = err, now.Add(r.limits.Recheck)
}

// Clear removes the block on starts: an operator changed something, or a
// recheck succeeded.
func (r *Record) Clear() {
	r.err, r.until, r.deaths, r.loops = nil, time.Time{}, nil, 0
}

// died counts a death. It returns the error of the interrupted calls: the given
// one, or that of a crash loop, which then applies to later calls too. The
// error holds the number of the death, so that a host that hears of it twice
// counts it once.
func (r *Record) died(now time.Time, why *contract.Error, lived time.Duration) (err *contract.Error, looping bool) {
	if lived >= r.limits.Window {
		r.loops = 0
	}
	r.forget(now)
	r.total++
	why = why.WithDetail("deaths", edn.Int(int64(r.total)))
	r.deaths = append(r.deaths, now)
	if len(r.deaths) < r.limits.Deaths {
		return why, false
	}
	pause := r.limits.First
	for range r.loops {
		if pause *= 2; pause >= r.limits.Longest {
			pause = r.limits.Longest
			break
		}
	}
	r.loops++
	r.deaths = nil
	err = contract.Errorf("model/crash-loop",
		"the model server died %d times within %s, and is not started again for %s: %s",
		r.limits.Deaths, r.limits.Window, pause, why.Message).
		WithDetails(why.Details.Dissoc(edn.K("deaths"))).
		WithHint("look at the last lines of its output (:model/status); :model/quit permits a new start at once")
	r.err, r.until = err, now.Add(pause)
	return wait(err, pause).WithDetail("deaths", edn.Int(int64(r.total))), true
}

func (r *Record) forget(now time.Time) {
	for len(r.deaths) > 0 && now.Sub(r.deaths[0]) >= r.limits.Window {
		r.deaths = r.deaths[1:]
	}
}

// wait adds the time to wait to an error.
func wait(err *contract.Error, d time.Duration) *contract.Error {
	return err.WithDetail("retry-after-ms", edn.Int(max(d, time.Millisecond).Milliseconds()))
}
