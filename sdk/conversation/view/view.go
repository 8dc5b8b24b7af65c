package view

import (
	"iter"

	"github.com/fermenthq/ferment/sdk/conversation"
)

// Filtered returns the messages of c for which keep returns true. It calls keep
// once for each message, before it returns.
func Filtered(c conversation.Context, keep func(conversation.Message) bool) conversation.Context {
	kept := make(chosen, 0, c.Len())
	for m := range c.All() {
		if keep(m) {
			kept = append(kept, m)
		}
	}
	return kept
}

// chosen are messages of a view. The slice is not modified once it is a context.
type chosen []conversation.Message

// All implements conversation.Context.
func (c chosen) All() iter.Seq[conversation.Message] {
	return func(yield func(conversation.Message) bool) {
		for _, m := range c {
			if !yield(m) {
				return
			}
		}
	}
}

// Len implements conversation.Context.
func (c chosen) Len() int { return len(c) }

// WithoutSystem returns the messages of c whose role is not system.
func WithoutSystem(c conversation.Context) conversation.Context {
	return Filtered(c, func(m conversation.Message) bool { return m.Role() != conversation.RoleSystem })
}

// Composed returns a system message, unless system is "", and then the messages
// of the contexts, one context after the other.
func Composed(system string, contexts ...conversation.Context) conversation.Context {
	var all composed
	if system != "" {
		all.add(conversation.Of(conversation.System(system)))
	}
	for _, c := range contexts {
		all.add(c)
	}
	return &all
}

type composed struct {
	parts []conversation.Context
	n     int
}

func (c *composed) add(part conversation.Context) {
	c.parts, c.n = append(c.parts, part), c.n+part.Len()
}

// All implements conversation.Context.
func (c *composed) All() iter.Seq[conversation.Message] {
	return func(yield func(conversation.Message) bool) {
		for _, part := range c.parts {
			for m := range part.All() {
				if !yield(m) {
					return
				}
			}
		}
	}
}

// Len implements conversation.Context.
func (c *composed) Len() int { return c.n }
