package session_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/conversation/session"
	"github.com/fermenthq/ferment/sdk/conversation/session/storetest"
)

// CNV-031, for the store in memory: conflicts, atomic commits, nothing lost.
func TestMemory(t *testing.T) {
	storetest.Run(t, storetest.Store{Open: func(*testing.T) session.Store { return new(session.Memory) }})
}

// What a caller appends to the messages that it loaded stays its own: a later commit does
// not write over it.
func TestMemoryIsNotShared(t *testing.T) {
	store, version := new(session.Memory), session.Version(0)
	add := func(text string) {
		n := int(version) // one message in each commit
		next, err := store.Commit(t.Context(), "c-01", version,
			session.Change{From: n, To: n, Messages: []conversation.Message{conversation.User(text)}})
		require.NoError(t, err)
		version = next
	}
	for _, text := range []string{"a", "b", "c", "d", "e"} { // the slice of the store has room at some of them
		add(text)
		loaded, err := store.Load(t.Context(), "c-01")
		require.NoError(t, err)
		mine := append(loaded.Messages, conversation.User("mine"))
		add("later than " + text)
		assert.Equal(t, "mine", mine[len(mine)-1].Text())
	}
}
