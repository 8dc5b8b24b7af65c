package flow

import "slices"

// tried are the candidates that an operation has tried.
type tried struct {
	used     []string // in order
	most     int      // the limit of the rules
	attempts int      // attempts started so far
	begun    bool     // Begin was called
}

// next returns the best candidate that was not tried; ok is false if there is
// none or the limit is reached.
func (t *tried) next(s *Situation) (capID string, ok bool) {
	if t.Exhausted() {
		return "", false
	}
	for _, id := range s.Accepted {
		if !slices.Contains(t.used, id) {
			return id, true
		}
	}
	return "", false
}

// Next returns the candidate that the machine would try next; ok is false if
// there is none or the limit is reached.
func (t *tried) Next(s Situation) (capID string, ok bool) { return t.next(&s) }

// Exhausted reports whether no further candidate may be tried; false before
// Begin.
func (t *tried) Exhausted() bool { return t.begun && len(t.used) >= t.most }

// Tried reports whether a candidate was tried.
func (t *tried) Tried(capID string) bool { return slices.Contains(t.used, capID) }

// Fresh reports whether nothing was tried yet.
func (t *tried) Fresh() bool { return len(t.used) == 0 && t.attempts == 0 }

// nextLeft sets f.NextLeft and reports whether a candidate is ready.
func (t *tried) nextLeft(f *Failure, s *Situation) (ready bool) {
	_, ready = t.next(s)
	f.NextLeft = ready || !t.Exhausted() && slices.ContainsFunc(s.Returning, func(id string) bool { return !t.Tried(id) })
	return ready
}

// untried returns the number of candidates that may still be tried.
func (t *tried) untried(s *Situation) (n int64) {
	for _, id := range s.Accepted {
		if !t.Tried(id) {
			n++
		}
	}
	return min(n, int64(t.most-len(t.used)))
}

// yields reports whether a candidate that failed gives up its retries and repair
// rounds: they would use the calls that the candidates which were not tried yet
// need, and one of those can be called now. Without this rule a small limit is
// spent on a candidate that is down (EMB-002).
func (t *tried) yields(f *Failure, s *Situation) bool {
	if !s.Limited || !t.nextLeft(f, s) {
		return false
	}
	next := *f
	next.TriesLeft, next.RoundsLeft = false, false
	if action, _ := Decide(next); action != Next {
		return false
	}
	return s.Left <= t.untried(s)
}
