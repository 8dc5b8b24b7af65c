package identity

import (
	"context"
	"slices"
	"strings"
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
	return m.now.clone(), nil
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
	c, err := change(m.now.clone())
	if err != nil || c.Empty() {
		return err
	}
	m.now = m.now.with(c)
	return nil
}

func (a Accounts) clone() Accounts {
	return Accounts{
		Version: a.Version,
		Users:   slices.Clone(a.Users),
		Tokens:  slices.Clone(a.Tokens),
		Roles:   slices.Clone(a.Roles),
	}
}

// with returns the accounts after a change.
func (a Accounts) with(c Change) Accounts {
	roles := without(a.Roles, c.DropRole, c.PutRole, func(r *Role) string { return r.Name })
	slices.SortFunc(roles, func(a, b Role) int { return strings.Compare(a.Name, b.Name) })
	return Accounts{
		Version: a.Version + 1,
		Users:   without(a.Users, c.Drop, c.Put, func(u *User) string { return u.ID }),
		Tokens:  without(a.Tokens, c.DropToken, c.PutToken, func(t *Token) string { return t.ID }),
		Roles:   roles,
	}
}

// without returns a copy of list without the members whose keys are in drop, and with the
// members of put in place of those with the same key.
func without[T any](list []T, drop []string, put []T, key func(*T) string) []T {
	list = slices.DeleteFunc(slices.Clone(list), func(member T) bool {
		k := key(&member)
		return slices.Contains(drop, k) || slices.ContainsFunc(put, func(p T) bool { return key(&p) == k })
	})
	return append(list, put...)
}
