package session

import (
	"context"
	"iter"

	"github.com/fermenthq/ferment/sdk/conversation"
)

// Transaction is a [conversation.Transaction] on one version of a conversation.
// It does not read what others commit after Begin; such a commit makes its own
// commit fail with a [*ConflictError].
type Transaction struct {
	*conversation.Transaction
	session *Session
	base    snapshot
}

// Commit is [Session.Commit].
func (t *Transaction) Commit(ctx context.Context) (Version, error) { return t.session.Commit(ctx, t) }

// snapshot is a conversation at a version. It is a context.
type snapshot struct {
	version  Version
	messages []conversation.Message // not modified
}

func (s snapshot) Len() int { return len(s.messages) }

func (s snapshot) All() iter.Seq[conversation.Message] {
	return func(yield func(conversation.Message) bool) {
		for _, m := range s.messages {
			if !yield(m) {
				return
			}
		}
	}
}
