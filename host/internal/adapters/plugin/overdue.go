package plugin

import (
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
)

// A canceled call of a plugin that ignores the cancel goes on, and takes processor time and
// memory, while the host has its outcome and counts it no more (RUN-013). Both numbers are
// compared: a health report has the calls that the plugin works on.

// overdueLooks is the number of probes that have to find such a call: one that ends just
// now is still in a report.
const overdueLooks = 3

// grace is the time that the plugin has to end a call that was canceled.
func (s *service) grace() time.Duration { return s.instance.edition.rules.Load().CancelGrace }

// cutSpan is the time within which cut calls are counted together: it bounds the memory for
// them to 16 entries, at the price of as much more grace.
func cutSpan(grace time.Duration) time.Duration { return grace / 16 }

// overdue is what a service knows of calls that outlive their cancel. Its lock is that of
// the service.
type overdue struct {
	recent []cuts // calls that the host has ended within the grace before the plugin answered
	cut    int    // calls that it has ended so before
	looks  int    // probes that found some of them since one that found none for certain
	least  int    // the fewest that they found
	since  time.Time
	waits  bool // a probe is to come
}

// cuts are calls that the host has ended within a span from a time on.
type cuts struct {
	from  time.Time
	calls int
}

// add counts a call that the host ends now.
func (o *overdue) add(now time.Time, span time.Duration) {
	if n := len(o.recent); n > 0 && now.Sub(o.recent[n-1].from) < span {
		o.recent[n-1].calls++
		return
	}
	o.recent = append(o.recent, cuts{now, 1})
}

// within returns the number of calls that still have grace, and counts the others to those
// that should have ended.
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

// cutShort notes that the host has ended a call before the plugin answered, and probes the
// plugin when it should have ended it as well.
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

// probeLater probes the plugin after the grace. One such probe at a time is enough.
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

// callCount is the calls of a service at one moment.
type callCount struct {
	running int
	last    uint64 // id
	recent  int    // canceled within the grace: the plugin may still work on them
	cut     int    // canceled before
}

func (s *service) countCalls(now time.Time) callCount {
	s.mu.Lock()
	defer s.mu.Unlock()
	recent := s.overdue.within(now, s.grace())
	return callCount{running: len(s.calls), last: s.lastID, recent: recent, cut: s.overdue.cut}
}

// compare compares the calls in the report of a probe with those that the host had at its
// begin or began since, and those whose cancel was within the grace at its begin. It returns
// the number of calls that outlive their cancel, and whether another probe is needed to know.
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
		return 0, true // calls that still have grace may hide some
	case begun > 0 && reported > 0 && o.looks > 0:
		return 0, true // calls that began meanwhile may hide some
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

// replaceLate makes another process take the place of one whose canceled calls go on. Its
// other calls end first.
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
