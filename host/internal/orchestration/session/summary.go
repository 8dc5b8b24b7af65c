package session

import (
	"context"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Summarizer returns a summary of a text of a session with at most chars characters.
type Summarizer func(ctx context.Context, of Session, text string, chars int) (string, *contract.Error)

// summarizedTurns is the key of an internal note: the number of the last turn that the
// summary covers. Callers do not see it.
const summarizedTurns = "summarized-turns"

func (s Session) summarized() int64 {
	n, _ := s.Notes.Key(summarizedTurns).AsInt()
	return n
}

// Limited returns the session with its summary marked as covering no turn after the
// number last, and reports whether that is a change.
func (s Session) Limited(last int64) (_ Session, changed bool) {
	if s.summarized() <= last {
		return s, false
	}
	s.Notes = s.Notes.AssocKey(summarizedTurns, edn.Int(last))
	return s, true
}

// Forgetting returns the session without its summary if the summary covers the turn with
// the given number or a later one, because these turns were removed. changed reports
// whether it did. The number 1 removes every summary of turns.
func (s Session) Forgetting(turn int64) (_ Session, changed bool) {
	if s.summarized() < turn {
		return s, false
	}
	s.Version++
	s.Notes = s.Notes.Dissoc(edn.K("summary"), edn.K(summarizedTurns))
	return s, true
}

// maxSummarized is the maximum number of turns that are read for one summary.
const maxSummarized = 1000

// Summarize summarizes the sessions whose runs ended since the last call and whose turns
// no longer fit into the window: the summary replaces the older turns, and the last
// turns that fit into half the window remain. ids are the summarized sessions. Summarize
// continues after a failure and returns one of the errors; a session that failed is
// tried again after its next run. A nil by summarizes no session.
func (s *Service) Summarize(ctx context.Context, by Summarizer) (ids []string, err *contract.Error) {
	s.mu.Lock()
	grown := s.grown
	s.grown = map[string]struct{}{}
	s.mu.Unlock()
	if by == nil {
		return nil, nil
	}
	for id := range grown {
		done, failure := s.summarize(ctx, id, by)
		if failure != nil {
			err = failure
		}
		if done {
			ids = append(ids, id)
		}
	}
	return ids, err
}

func (s *Service) summarize(ctx context.Context, id string, by Summarizer) (done bool, err *contract.Error) {
	of, ok, failure := s.store.Session(ctx, id)
	if failure != nil || !ok {
		return false, failed("read session "+id, failure)
	}
	rules := s.rules.Load()
	turns, failure := s.store.Turns(ctx, id, rules.Window.Turns+1) // cheap check: in most cases all turns fit
	if _, cut := rules.Window.Cut(after(turns, of.summarized())); failure != nil || !cut {
		return false, failed("read session "+id, failure)
	}
	if turns, failure = s.store.Turns(ctx, id, maxSummarized); failure != nil {
		return false, failed("read session "+id, failure)
	}
	turns = after(turns, of.summarized())
	half := Window{rules.Window.Turns / 2, rules.Window.Chars / 2}
	kept, cut := half.Cut(turns)
	if !cut { // turns were removed meanwhile
		return false, nil
	}
	old := turns[:boundary(turns, len(turns)-len(kept))]
	summary, err := by(ctx, of, said(of, old), rules.SummaryChars)
	if err != nil {
		return false, err
	}
	again, failure := s.store.Turns(ctx, id, maxSummarized)
	if failure != nil || !holds(again, old) { // the summarized turns were changed meanwhile
		return false, failed("read session "+id, failure)
	}
	return true, failed("summarize session "+id, s.store.Update(ctx, id, func(st Stored) (Change, error) {
		if !st.Found || !of.Identity().is(st.Session) || st.Session.summarized() != of.summarized() || !st.Session.Notes.Key("summary").Equal(of.Notes.Key("summary")) {
			return Change{}, nil // it has another summary by now, or is another session
		}
		now := s.clock()
		next := st.Session.next(now)
		next.Accessed = st.Session.Accessed
		next.Notes = next.Notes.AssocKey("summary", edn.Text(summary)).AssocKey(summarizedTurns, edn.Int(old[len(old)-1].N))
		return Change{Session: &next}, nil
	}))
}

// boundary returns the smallest length of at least n at which every following turn has a
// number above that of the last turn within the length. A turn that was regenerated or
// edited has a greater number than those after it. n must be at least 1.
func boundary(turns []Turn, n int) int {
	for i := n; i < len(turns); i++ {
		if turns[i].N < turns[n-1].N {
			n = i + 1
		}
	}
	return n
}

// after returns the turns that follow the last one with a number of at most n, which a
// summary covers. Turns before it may have greater numbers if they changed after the
// summary.
func after(turns []Turn, n int64) []Turn {
	for i, t := range slices.Backward(turns) {
		if t.N <= n {
			return turns[i+1:]
		}
	}
	return turns
}

// holds reports whether other, which must not be empty, is a contiguous part of turns.
func holds(turns, other []Turn) bool {
	same := func(a, b Turn) bool { return a.N == b.N }
	i := slices.IndexFunc(turns, func(t Turn) bool { return same(t, other[0]) })
	return i >= 0 && len(turns) >= i+len(other) && slices.EqualFunc(turns[i:i+len(other)], other, same)
}

// said returns the text to summarize: the present summary and the turns that follow it.
func said(of Session, turns []Turn) string {
	var b strings.Builder
	if summary, ok := of.Notes.Key("summary").AsString(); ok && summary != "" {
		b.WriteString(summary + "\n\n")
	}
	for _, t := range turns {
		b.WriteString(t.Role + ": " + t.Text + "\n")
	}
	return b.String()
}
