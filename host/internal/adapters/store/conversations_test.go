package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/conversation"
	"github.com/fermenthq/ferment/host/internal/orchestration/conversation/conversationtest"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// CNV-020 to CNV-026, CNV-031: the stores in SQLite and PostgreSQL pass the suite of
// stores, and keep conversations over a restart.
func TestConversations(t *testing.T) {
	onEach(t, func(t *testing.T, on backend) {
		dirs := map[*Store]string{}
		at := func(t *testing.T, dir string) conversation.Store {
			s := on.openAt(t, dir, quiet)
			dirs[s] = dir
			return s.Conversations()
		}
		conversationtest.Suite(t, proof.Size(t, "sequences in conversations on disk", 20, 500),
			func(t *testing.T) conversation.Store { return at(t, t.TempDir()) },
			func(t *testing.T, store conversation.Store) conversation.Store {
				s := store.(Conversations).s
				require.NoError(t, s.Close())
				return at(t, dirs[s])
			})
	})
}
