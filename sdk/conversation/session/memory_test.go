package session_test

import (
	"testing"

	"github.com/fermenthq/ferment/sdk/conversation/session"
	"github.com/fermenthq/ferment/sdk/conversation/session/storetest"
)

// CNV-031, for the store in memory: conflicts, atomic commits, nothing lost.
func TestMemory(t *testing.T) {
	storetest.Run(t, storetest.Store{Open: func(*testing.T) session.Store { return new(session.Memory) }})
}
