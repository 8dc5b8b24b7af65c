package wire

import "time"

// A deadline crosses the wire as a point on the clock of the machine, and that
// clock may be set while a run goes on: by the service that keeps it right, or
// by hand. What a call has left must not change with it. So a deadline is put on
// that clock when it is sent, by the time that is left then, and taken off it
// when it arrives; on both sides it is a time that runs evenly in between.

// clockSlack is by how much the clock of the machine may have moved against even
// time without having been set: it is read apart from the other and steered all
// the time. A deadline that is handed on keeps its value within it, or each hop
// would make it later by a little.
const clockSlack = 5 * time.Millisecond

// onWire is deadline as it is sent at now. A deadline that time.Now led to runs
// evenly, whatever the clock did since.
func onWire(deadline, now time.Time) int64 {
	written := deadline.Round(0)
	even := now.Round(0).Add(deadline.Sub(now))
	if even.Sub(written).Abs() <= clockSlack {
		return written.UnixNano()
	}
	return even.UnixNano()
}

// offWire is a deadline that arrives at now. It has a monotonic reading if now
// has one.
func offWire(at int64, now time.Time) time.Time {
	return now.Add(time.Unix(0, at).Sub(now))
}
