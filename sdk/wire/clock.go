package wire

import "time"

// A deadline is sent as a time of the system clock, which may be set during a
// run. The remaining time of a call must not change then. So the remaining time
// is added to the system clock when the deadline is sent, and computed from the
// system clock when it arrives; on both sides the deadline has a monotonic clock
// reading.

// clockSlack is the largest difference of the system clock from the monotonic
// clock that does not mean that it was set: the two are read one after the other,
// and the system clock is steered. A deadline that is forwarded keeps its value
// within this slack; otherwise each hop would make it a little later.
const clockSlack = 5 * time.Millisecond

// onWire returns the deadline as it is sent at now. A deadline derived from
// time.Now is not affected by changes of the system clock.
func onWire(deadline, now time.Time) int64 {
	written := deadline.Round(0)
	even := now.Round(0).Add(deadline.Sub(now))
	if even.Sub(written).Abs() <= clockSlack {
		return written.UnixNano()
	}
	return even.UnixNano()
}

// offWire returns the deadline that arrives at now. It has a monotonic reading
// if now has one.
func offWire(at int64, now time.Time) time.Time {
	return now.Add(time.Unix(0, at).Sub(now))
}
