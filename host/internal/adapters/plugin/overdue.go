package plugin

import (
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
)

// A plugin may ignore the cancellation of a call: the call then continues and uses processor time
// and memory, although the host has its outcome and no longer counts it (RUN-013). To detect such
// overdue calls, the host compares its number of calls with the number in a health report of the
// plugin.

// overdueLooks is the number of probes that must find an overdue call before the process is
// replaced. One is not enough: a call that is just ending is still in the report.
const overdueLooks = 3

// grace returns the time that the plugin has to end a canceled call.
func (s *service) grace() time.Duration { return s.instance.edition.rules.Load().CancelGrace }

// cutSpan is the time within which canceled calls are counted together. It limits the list of them
// to 16 entries, and extends the grace by the same time.
func cutSpan(grace time.Duration) time.Duration { return grace / 16 }

// overdue is the state of a service for calls that continue after their cancellation. It is guarded
// by service.mu.
type overdue struct {
	recent []cuts // calls canceled within the grace, without an answer of the plugin
	cut    int    // number of calls that were canceled before that
	looks  int    // consecutive probes that found overdue calls
	least  int    // smallest number that one of these probes found
	since  time.Time
	waits  bool // a probe is scheduled
}

// cuts is a number of calls that the host has canceled within cutSpan from a time on.
type cuts struct {
	from  time.Time
	calls int
}

// add counts a call that the host cancels now.
func (o *overdue) add(now time.Time, span time.Duration) {
	if n := len(o.recent); n > 0 && now.Sub(o.recent[n-1].from) < span {
		o.recent[n-1].calls++
		return
	}
	o.recent = append(o.recent, cuts{now, 1})
}

// within returns the number of canceled calls whose grace is not over, and moves the others to
// o.cut.
func (o *overdue) within(now time.Time, grace time.Duration) (calls int) {
	for len(o.recent) > 0 && now.Sub(o.recent[0].from) >= cutSpan(grace)+grace {
		o.cut += o.recent[0].calls
		o.recent = o.recent[1:]
	}
	for _, c := range o.recent {
		calls += c.calls
	}
	return calls
}

// cutShort records that the host has canceled a call that the plugin had not answered, and
// schedules a probe for the time when the plugin should have ended it.
func (s *service) cutShort() {
	now, grace := s.instance.unit.host.clock.Now(), s.grace()
	s.mu.Lock()
	s.overdue.within(now, grace)
	s.overdue.add(now, cutSpan(grace))
	s.mu.Unlock()
	s.probeLater()
}

// isClosed reports whether a channel is closed.
func isClosed(stop <-chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return false
	}
}

// probeLater schedules a probe after the grace, unless one is scheduled already.
func (s *service) probeLater() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.overdue.waits {
		return
	}
	s.overdue.waits = true
	grace := s.grace()
	s.instance.unit.host.clock.AfterFunc(cutSpan(grace)+grace, func() {
		s.mu.Lock()
		s.overdue.waits = false
		s.mu.Unlock()
		s.probe()
	})
}

// callCount is the state of the calls of a service at one time.
type callCount struct {
	running int
	last    uint64 // id of the newest call
	recent  int    // canceled within the grace: the plugin may still work on them
	cut     int    // canceled before
}

func (s *service) countCalls(now time.Time) callCount {
	s.mu.Lock()
	defer s.mu.Unlock()
	recent := s.overdue.within(now, s.grace())
	return callCount{running: len(s.calls), last: s.lastID, recent: recent, cut: s.overdue.cut}
}

// compare compares the number of calls in a probe report with the calls of the host: those at the
// begin of the probe, those that began since, and those whose grace was not over at the begin. It
// returns the number of overdue calls, and whether another probe is needed to be certain.
func (s *service) compare(begin callCount, reported int, now time.Time) (late int, again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &s.overdue
	begun := int(s.lastID - begin.last)
	excess := reported - begin.running - begun
	found := min(excess-begin.recent, begin.cut)
	if reported == 0 {
		o.cut = 0
	}
	switch {
	case found > 0:
	case excess > 0 && begin.recent > 0:
		return 0, true // calls within their grace may hide overdue ones
	case begun > 0 && reported > 0 && o.looks > 0:
		return 0, true // calls that began since may hide overdue ones
	default:
		o.looks = 0
		return 0, reported > 0 && begin.recent > 0
	}
	if o.looks == 0 {
		o.since, o.least = now, found
	}
	o.looks++
	o.least = min(o.least, found)
	if o.looks < overdueLooks || now.Sub(o.since) < s.grace() {
		return 0, true
	}
	return o.least, false
}

// replaceLate replaces a process in which canceled calls continue. Its other calls end first.
func (u *unit) replaceLate(s *service, calls int) {
	u.mu.Lock()
	if s.spent {
		u.mu.Unlock()
		return
	}
	s.spent = true
	s.late = contract.Errorf("runtime/unresponsive", "%d canceled calls are still running in the plugin, so its process is replaced", calls).
		WithHint("make its functions end when their call is canceled: \"ferment conform\" has the check core/cancel/burns")
	s.instance.edition.arrange()
	todo := u.balance(s.instance.edition)
	u.mu.Unlock()
	u.note(s.process, "warn", s.late.Message)
	todo.run()
}
