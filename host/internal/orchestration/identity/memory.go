package identity

import (
	"context"
	"slices"
	"sync"
)

// Memory is a Store without durability. The zero value is empty.
type Memory struct {
	mu  sync.Mutex
	now Accounts
}

var _ Store = (*Memory)(nil)

// Accounts implements Store.
func (m *Memory) Accounts(context.Context) (Accounts, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Accounts{m.now.Version, slices.Clone(m.now.Users), slices.Clone(m.now.Tokens)}, nil
}

// Version implements Store.
func (m *Memory) Version(context.Context) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now.Version, nil
}

// Shared implements Store.
func (m *Memory) Shared() bool { return false }

// Update implements Store.
func (m *Memory) Update(ctx context.Context, change func(Accounts) (Change, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c, err := change(Accounts{m.now.Version, slices.Clone(m.now.Users), slices.Clone(m.now.Tokens)})
	if err != nil || c.Empty() {
		return err
	}
	m.now = m.now.with(c)
	return nil
}

// with returns the accounts after a change.
func (a Accounts) with(c Change) Accounts {
	users := slices.DeleteFunc(slices.Clone(a.Users), func(u User) bool {
		return slices.Contains(c.Drop, u.ID) || slices.ContainsFunc(c.Put, func(p User) bool { return p.ID == u.ID })
	})
	tokens := slices.DeleteFunc(slices.Clone(a.Tokens), func(t Token) bool {
		return slices.Contains(c.DropToken, t.ID) || slices.ContainsFunc(c.PutToken, func(p Token) bool { return p.ID == t.ID })
	})
	return Accounts{a.Version + 1, append(users, c.Put...), append(tokens, c.PutToken...)}
}
