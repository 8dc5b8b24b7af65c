package conversation_test

import (
	"testing"

	"github.com/fermenthq/ferment/host/internal/orchestration/conversation"
	"github.com/fermenthq/ferment/host/internal/orchestration/conversation/conversationtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/host/internal/orchestration/session/sessiontest"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// CNV-020 to CNV-026, CNV-029, CNV-031: random operations do the same as on plain
// lists; the store in memory passes the suite of stores.
func TestMemory(t *testing.T) {
	conversationtest.Suite(t, proof.Size(t, "sequences in conversations", 300, 10_000),
		func(*testing.T) conversation.Store { return new(conversation.Memory) }, nil)
}

// CNV-022, SES-001 to SES-021: the turns of sessions in memory are the paths of
// conversations, and sessions do what they do.
func TestSessionsInMemory(t *testing.T) {
	sessiontest.Suite(t, func(*testing.T) session.Store { return new(conversation.Memory).Sessions() })
	conversationtest.SessionSuite(t, func(*testing.T) (conversation.Store, session.Store) {
		m := new(conversation.Memory)
		return m, m.Sessions()
	})
}
