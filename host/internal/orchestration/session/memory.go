package session

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fermenthq/ferment/sdk/edn"
)

// Memory is a Store without durability. The zero value is empty.
type Memory struct {
	mu   sync.RWMutex
	byID map[string]*kept
}

type kept struct {
	session Session
	vars    map[string]Var
	turns   []Turn
}

var _ Store = (*Memory)(nil)

// Update implements Store.
func (m *Memory) Update(ctx context.Context, id string, change func(Stored) (Change, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.byID[id]
	st := Stored{Expires: map[string]time.Time{}}
	if k != nil {
		st.Found, st.Session = true, k.session
		for key, v := range k.vars {
			st.Expires[key] = v.Expires
		}
	}
	c, err := change(st)
	switch {
	case err != nil:
		return err
	case c.Delete:
		delete(m.byID, id)
		return nil
	case k == nil && c.Session == nil:
		return nil
	case k == nil:
		k = &kept{vars: map[string]Var{}}
		if m.byID == nil {
			m.byID = map[string]*kept{}
		}
		m.byID[id] = k
	}
	if c.Session != nil {
		k.session = *c.Session
	}
	for _, v := range c.Put {
		k.vars[v.Key] = v
	}
	for _, key := range c.Drop {
		delete(k.vars, key)
	}
	for _, t := range c.Turns {
		t.N = int64(len(k.turns) + 1)
		k.turns = append(k.turns, t)
	}
	return nil
}

// Session implements Store.
func (m *Memory) Session(_ context.Context, id string) (Session, bool, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	k := m.byID[id]
	if k == nil {
		return Session{}, false, nil
	}
	return k.session, true, nil
}

// Sessions implements Store.
func (m *Memory) Sessions(_ context.Context, f Filter) (out []Session, _ error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, id := range slices.Sorted(maps.Keys(m.byID)) {
		k := m.byID[id]
		if id > f.After && (f.Owner == "" || k.session.Owner == f.Owner) && len(out) < f.Limit {
			out = append(out, k.session)
		}
	}
	return out, nil
}

// Hot implements Store.
func (m *Memory) Hot(context.Context) (out []Session, _ error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, k := range m.byID {
		if !k.session.Frozen {
			bare := k.session
			bare.Notes = edn.MustMap()
			out = append(out, bare)
		}
	}
	return out, nil
}

// Count implements Store.
func (m *Memory) Count(context.Context) (int, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.byID), nil
}

// Vars implements Store.
func (m *Memory) Vars(_ context.Context, id string, keys ...string) (out []Var, _ error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	k := m.byID[id]
	if k == nil {
		return nil, nil
	}
	for key, v := range k.vars {
		if len(keys) == 0 || slices.Contains(keys, key) {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b Var) int { return strings.Compare(a.Key, b.Key) })
	return out, nil
}

// Turns implements Store.
func (m *Memory) Turns(_ context.Context, id string, most int) ([]Turn, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	k := m.byID[id]
	if k == nil {
		return nil, nil
	}
	return slices.Clone(k.turns[max(0, len(k.turns)-most):]), nil
}

// Purge implements Store.
func (m *Memory) Purge(_ context.Context, at time.Time) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, k := range m.byID {
		before := len(k.vars)
		maps.DeleteFunc(k.vars, func(_ string, v Var) bool { return expired(v.Expires, at) })
		n += before - len(k.vars)
	}
	return n, nil
}

// Touch implements Store.
func (m *Memory) Touch(_ context.Context, at map[string]time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, t := range at {
		if k := m.byID[id]; k != nil && t.After(k.session.Accessed) {
			k.session.Accessed = t
		}
	}
	return nil
}
