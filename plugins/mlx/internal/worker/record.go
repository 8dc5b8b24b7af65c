package worker

import (
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/launch"
)

// maxDeaths crashes within window are a crash loop (MLX-009). Starts then pause,
// at first for firstPause.
const (
	maxDeaths    = 3
	window       = 5 * time.Minute
	firstPause   = time.Minute
	longestPause = 30 * time.Minute
)

// Record counts the crashes of all servers of one model: the cause of one crash
// usually affects all of them.
type Record struct {
	recheck time.Duration
	deaths  []time.Time // within the window
	total   int
	loops   int // crash loops in a row
	err     *contract.Error
	until   time.Time
}

// NewRecord returns an empty record. A server that cannot run here is tried
// again after recheck.
func NewRecord(recheck time.Duration) *Record { return &Record{recheck: recheck} }

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

// Deaths returns the number of crashes and failed starts in total, and of those within window since
// the last crash loop or Clear.
func (r *Record) Deaths(now time.Time) (total, lately int) {
	r.deaths = launch.Recent(r.deaths, window, now)
	return r.total, len(r.deaths)
}

// Unavailable records that the server cannot run on this machine. It blocks starts for the time
// recheck.
func (r *Record) Unavailable(now time.Time, err *contract.Error) {
	r.err, r.until = err, now.Add(r.recheck)
}

// Clear removes the block on starts and forgets the recent crashes, for example after an operator
// has changed something or a recheck succeeded.
func (r *Record) Clear() {
	r.err, r.until, r.deaths, r.loops = nil, time.Time{}, nil, 0
}

// died records a crash or a failed start. It returns the error of the interrupted calls: why, or
// that of a crash loop, which then applies to later calls too. Its detail :deaths is the total
// number so far, so that a host that receives two errors of one crash counts it once.
func (r *Record) died(now time.Time, why *contract.Error, lived time.Duration) *contract.Error {
	if lived >= window {
		r.loops = 0
	}
	r.total++
	r.deaths = append(launch.Recent(r.deaths, window, now), now)
	if len(r.deaths) >= maxDeaths {
		r.loops++
		r.deaths = nil
		pause := launch.Backoff(r.loops, firstPause, longestPause)
		r.err = contract.Errorf("model/crash-loop",
			"the model server died %d times within %s, and is not started again for %s: %s",
			maxDeaths, window, pause, why.Message).
			WithDetails(why.Details).
			WithHint("look at the last lines of its output (:model/status); :model/quit permits a new start at once")
		r.until = now.Add(pause)
		why = wait(r.err, pause)
	}
	return why.WithDetail("deaths", edn.Int(int64(r.total)))
}

// wait returns err with the time to wait in its details.
func wait(err *contract.Error, d time.Duration) *contract.Error {
	return err.WithDetail("retry-after-ms", edn.Int(max(d, time.Millisecond).Milliseconds()))
}
