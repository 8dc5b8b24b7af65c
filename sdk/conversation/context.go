package conversation

import (
	"iter"
	"slices"
)

// Context is the input of an agent or a model: an immutable list of the messages
// of a conversation at one time. Messages that are appended to the conversation
// later are not part of it.
//
//  1. All yields the messages in their order. It may be called again, yields the
//     same messages each time, and may be broken off.
//  2. Len is the number of messages that All yields.
//  3. Both are safe for concurrent use and neither blocks nor copies: the
//     messages are in memory.
type Context interface {
	All() iter.Seq[Message]
	Len() int
}

// Of returns a context with the messages.
func Of(messages ...Message) Context { return list(slices.Clone(messages)) }

// TransactionContext returns the messages of c, followed by those that are
// pending in tx at the time of the call.
func TransactionContext(c Context, tx *Transaction) Context {
	if pending := tx.state.pending; len(pending) > 0 {
		return &pair{c, list(pending)} // Add appends behind the length of this slice
	}
	return c
}

// list is a slice that is not modified any more.
type list []Message

func (l list) All() iter.Seq[Message] {
	return func(yield func(Message) bool) {
		for _, m := range l {
			if !yield(m) {
				return
			}
		}
	}
}

func (l list) Len() int { return len(l) }

type pair struct {
	first Context
	then  list
}

func (p *pair) All() iter.Seq[Message] {
	return func(yield func(Message) bool) {
		for m := range p.first.All() {
			if !yield(m) {
				return
			}
		}
		for _, m := range p.then {
			if !yield(m) {
				return
			}
		}
	}
}

func (p *pair) Len() int { return p.first.Len() + len(p.then) }
