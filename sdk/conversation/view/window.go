package view

import (
	"slices"

	"github.com/fermenthq/ferment/sdk/conversation"
)

// Option changes what a window keeps.
type Option func(*window)

type window struct {
	messages   int
	keepSystem bool
	limit      int // of tokens
	count      func(conversation.Message) int
}

// KeepSystem also keeps the system messages before the window. They do not count
// as messages of the window.
func KeepSystem() Option { return func(w *window) { w.keepSystem = true } }

// Tokens limits the tokens of the view, as count counts them. System messages
// that [KeepSystem] keeps are counted first and are kept even above the limit.
func Tokens(limit int, count func(conversation.Message) int) Option {
	return func(w *window) { w.limit, w.count = limit, count }
}

// Windowed returns the last n messages of c. The window begins later if the
// result of a tool in it would be without its call, which providers reject.
func Windowed(c conversation.Context, n int, options ...Option) conversation.Context {
	w := window{messages: max(n, 0)}
	for _, option := range options {
		option(&w)
	}
	all := slices.AppendSeq(make([]conversation.Message, 0, c.Len()), c.All())
	start := w.start(all)
	for unanswered := true; unanswered; {
		start, unanswered = skipOrphan(all, start)
	}
	var kept []conversation.Message
	for _, m := range all[:start] {
		if w.keeps(m) {
			kept = append(kept, m)
		}
	}
	return conversation.Of(append(kept, all[start:]...)...)
}

// keeps reports whether the message is kept wherever it is.
func (w *window) keeps(m conversation.Message) bool {
	return w.keepSystem && m.Role() == conversation.RoleSystem
}

// start returns the index of the first message of the window.
func (w *window) start(all []conversation.Message) int {
	room := w.limit
	if w.count != nil {
		for _, m := range all {
			if w.keeps(m) {
				room -= w.count(m)
			}
		}
	}
	n := 0
	for i, m := range slices.Backward(all) {
		if w.keeps(m) {
			continue
		}
		if n++; n > w.messages {
			return i + 1
		}
		if w.count == nil {
			continue
		}
		if room -= w.count(m); room < 0 {
			return i + 1
		}
	}
	return 0
}

// skipOrphan returns the index after the last tool result whose call is not in
// the window before it, if there is one.
func skipOrphan(all []conversation.Message, start int) (int, bool) {
	calls := map[string]bool{}
	after := start
	for i, m := range all[start:] {
		for call := range m.Calls() {
			calls[call.ID] = true
		}
		if r, ok := m.Result(); ok && !calls[r.CallID] {
			after = start + i + 1
		}
	}
	return after, after != start
}
