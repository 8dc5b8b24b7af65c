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

// KeepSystem also keeps the system messages before the window. System messages
// then do not count towards the size of the window.
func KeepSystem() Option { return func(w *window) { w.keepSystem = true } }

// Tokens limits the tokens of the view, as count counts them. System messages
// that [KeepSystem] keeps are counted first and are kept even above the limit.
func Tokens(limit int, count func(conversation.Message) int) Option {
	return func(w *window) { w.limit, w.count = limit, count }
}

// Windowed returns the last n messages of c. It returns fewer if they would
// contain the result of a tool without its call, which providers reject.
func Windowed(c conversation.Context, n int, options ...Option) conversation.Context {
	w := window{messages: max(n, 0)}
	for _, option := range options {
		option(&w)
	}
	all := make(chosen, 0, c.Len())
	for m := range c.All() {
		all = append(all, m)
	}
	start := skipOrphans(all, w.start(all))
	kept := 0 // system messages before the window move up to it
	for i := start - 1; i >= 0 && w.keepSystem; i-- {
		if w.keeps(all[i]) {
			kept++
			all[start-kept] = all[i]
		}
	}
	return all[start-kept:]
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

// skipOrphans returns the smallest index i, at least start, such that all[i:] has no
// result of a tool without its call.
func skipOrphans(all []conversation.Message, start int) int {
	calls := map[string]int{} // id to the index of the last message that makes the call
	for i := start; i < len(all); i++ {
		switch m := all[i]; m.Role() {
		case conversation.RoleAssistant:
			for call := range m.Calls() {
				calls[call.ID] = i
			}
		case conversation.RoleTool:
			r, _ := m.Result()
			if at, called := calls[r.CallID]; !called || at < start {
				start = i + 1
			}
		}
	}
	return start
}
