package worker

import (
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Limits say when a server that keeps dying is left alone.
type Limits struct {
	// Deaths within Window are a crash loop; the next try is after First, then
	// after twice as long, at most Longest.
	Deaths                 int
	Window, First, Longest time.Duration
	// Recheck is after how long a server that cannot run here is tried again.
	Recheck time.Duration
}

// DefaultLimits are those of the contract, with recheck from the configuration.
func DefaultLimits(recheck time.Duration) Limits {
	return Limits{Deaths: 3, Window: 5 * time.Minute, First: time.Minute, Longest: 30 * time.Minute, Recheck: recheck}
}

// Record is what the servers of one model have gone through. One model may have
// several servers, and what kills one kills the others.
type Record struct {
	limits Limits
	deaths []time.Time // within the window
	total  int
	loops  int // crash loops in a row
	err    *contract.Error
	until  time.Time
}

// NewRecord is a record without an entry.
func NewRecord(l Limits) *Record { return &Record{limits: l} }

// Blocked is why no server may be started now, nil if one may.
func (r *Record) Blocked(now time.Time) *contract.Error {
	if r.err == nil || !now.Before(r.until) {
		return nil
	}
	return wait(r.err, r.until.Sub(now))
}

// Until is when a server may be started again; zero if that is now.
func (r *Record) Until(now time.Time) time.Time {
	if r.Blocked(now) == nil {
		return time.Time{}
	}
	return r.until
}

// Deaths are how many servers died so far, and how many of them lately.
func (r *Record) Deaths(now time.Time) (total, lately int) {
	r.forget(now)
	return r.total, len(r.deaths)
}

// Unavailable notes that the server cannot run on this machine.
func (r *Record) Unavailable(now time.Time, err *contract.Error) {
	r.err, r.until = err, now.Add(r.limits.Recheck)
}

// Clear forgets what keeps servers from being started: somebody changed
// something, or looked again and found it in order.
func (r *Record) Clear() {
	r.err, r.until, r.deaths, r.loops = nil, time.Time{}, nil, 0
}

// died counts a death. It gives the error of the calls that it ended: the given
// one, or that of a crash loop, which then holds for later calls too. It has the
// number of the death, so that a host counts one that it hears of twice once.
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
	err = contract.Errorf("model/crash-loop", "the model server died %d times within %s, and is left alone for %s: %s", r.limits.Deaths, r.limits.Window, pause, why.Message).
		WithDetails(why.Details.Dissoc(edn.K("deaths"))).WithHint("look at the last lines of its output (:model/status); :model/quit has it tried again at once")
	r.err, r.until = err, now.Add(pause)
	return wait(err, pause).WithDetail("deaths", edn.Int(int64(r.total))), true
}

func (r *Record) forget(now time.Time) {
	for len(r.deaths) > 0 && now.Sub(r.deaths[0]) >= r.limits.Window {
		r.deaths = r.deaths[1:]
	}
}

// wait says in an error how long to wait.
func wait(err *contract.Error, d time.Duration) *contract.Error {
	return err.WithDetail("retry-after-ms", edn.Int(max(d, time.Millisecond).Milliseconds()))
}
