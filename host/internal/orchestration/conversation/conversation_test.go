package conversation_test

import (
	"testing"

	"github.com/fermenthq/ferment/host/internal/orchestration/conversation"
	"github.com/fermenthq/ferment/host/internal/orchestration/conversation/conversationtest"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// CNV-020 to CNV-026, CNV-029, CNV-031: random operations do the same as on plain
// lists; the store in memory passes the suite of stores.
func TestMemory(t *testing.T) {
	conversationtest.Suite(t, proof.Size(t, "sequences in conversations", 300, 10_000),
		func(*testing.T) conversation.Store { return new(conversation.Memory) }, nil)
}
