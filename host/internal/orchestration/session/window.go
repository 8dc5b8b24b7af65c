package session

import "unicode/utf8"

// Window is the maximum number of turns, and of characters in them, that an act gets
// from its session.
type Window struct{ Turns, Chars int }

// Cut returns the last turns that fit, and reports whether others were left out. It cuts
// between turns. If turns were left out, kept starts with a turn of the user or is empty
// (SES-016).
func (w Window) Cut(turns []Turn) (kept []Turn, cut bool) {
	first, chars := len(turns), 0
	for first > 0 && len(turns)-first < w.Turns {
		chars += utf8.RuneCountInString(turns[first-1].Text)
		if chars > w.Chars {
			break
		}
		first--
	}
	if first == 0 {
		return turns, false
	}
	for first < len(turns) && turns[first].Role != RoleUser {
		first++
	}
	return turns[first:], true
}
