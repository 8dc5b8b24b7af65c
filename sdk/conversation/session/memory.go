package session

import (
	"context"
	"slices"
	"sync"
)

// Memory is a store in memory, for tests and short-lived programs. The zero
// value is empty. It is safe for concurrent use.
type Memory struct {
	mu            sync.Mutex
	conversations map[string]Snapshot
}

var _ Store = (*Memory)(nil)

// Load implements Store.
func (m *Memory) Load(ctx context.Context, id string) (Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return Snapshot{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.conversations[id]
	s.Messages = slices.Clip(s.Messages)
	return s, nil
}

// Commit implements Store.
func (m *Memory) Commit(ctx context.Context, id string, base Version, change Change) (Version, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.conversations[id]
	if s.Version != base {
		return 0, &ConflictError{ID: id, Base: base, Current: s.Version}
	}
	messages, err := change.apply(s.Messages)
	if err != nil {
		return 0, err
	}
	if m.conversations == nil {
		m.conversations = map[string]Snapshot{}
	}
	m.conversations[id] = Snapshot{Version: base + 1, Messages: messages}
	return base + 1, nil
}
