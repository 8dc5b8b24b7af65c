package budget

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
)

// Memory is a Ledger in memory: a restart of the process resets it.
type Memory struct {
	now func() time.Time

	mu       sync.Mutex
	counters map[key]*counter
	open     map[uint64]held
	last     uint64
	swept    time.Time // day of the last sweep
}

var _ Ledger = (*Memory)(nil)

// NewMemory returns an empty ledger; now is the clock, nil for the system
// clock.
func NewMemory(now func() time.Time) *Memory {
	if now == nil {
		now = time.Now
	}
	return &Memory{now: now, counters: map[key]*counter{}, open: map[uint64]held{}}
}

// key is a scope in one window. A reservation is released in its own window,
// so that a long call does not add to the next one.
type key struct {
	kind  Kind
	id    string
	begin time.Time
}

type counter struct {
	used, reserved policy.Amounts
	granted        policy.Amounts
	mark           Mark
	open           int       // open reservations
	ends           time.Time // end of the window; zero: never
}

type held struct {
	keys []key
	want policy.Amounts
}

func (m *Memory) keys(scopes []Scope, now time.Time) []key {
	out := make([]key, len(scopes))
	for i, s := range scopes {
		out[i] = key{s.Kind, s.ID, s.Per.begin(now)}
	}
	return out
}

func (m *Memory) at(k key) counter {
	if c := m.counters[k]; c != nil {
		return *c
	}
	return counter{}
}

// Reserve implements Ledger.
func (m *Memory) Reserve(_ context.Context, scopes []Scope, want policy.Amounts) (Reservation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	keys := m.keys(scopes, now)
	for i, s := range scopes {
		c := m.at(keys[i])
		s.Limits = s.Limits.Plus(c.granted)
		spent := c.used.Plus(c.reserved)
		if d, over := s.Limits.Exceeded(spent, want); over {
			return Reservation{}, &ExceededError{
				Scope:     s,
				Dimension: d,
				Asked:     want,
				Left:      s.Limits.Less(spent),
				Resets:    s.Per.resets(now),
			}
		}
	}
	m.sweep(now)
	for i, k := range keys {
		c := m.counter(k, scopes[i], now)
		c.reserved = c.reserved.Plus(want)
		c.open++
	}
	m.last++
	m.open[m.last] = held{keys, want}
	return Reservation{m.last}, nil
}

// counter returns the counter of a scope, creating it if needed.
func (m *Memory) counter(k key, s Scope, now time.Time) *counter {
	c := m.counters[k]
	if c == nil {
		c = &counter{ends: s.Per.resets(now)}
		m.counters[k] = c
	}
	return c
}

// Adjust implements Ledger.
func (m *Memory) Adjust(_ context.Context, s Scope, a Adjustment) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	c := m.counter(m.keys([]Scope{s}, now)[0], s, now)
	c.granted = c.granted.Plus(a.Grant)
	c.used = c.used.Plus(a.Charge)
	return nil
}

// Seen implements Ledger.
func (m *Memory) Seen(_ context.Context, kind Kind, p Per) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	begin := p.begin(m.now())
	var out []string
	for k := range m.counters {
		if k.kind == kind && k.begin.Equal(begin) {
			out = append(out, k.id)
		}
	}
	slices.Sort(out)
	return out, nil
}

// Settle implements Ledger.
func (m *Memory) Settle(_ context.Context, r Reservation, spent policy.Amounts, mark Mark) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, ok := m.open[r.id]
	if !ok {
		return nil
	}
	delete(m.open, r.id)
	now := m.now()
	for _, k := range h.keys {
		c := m.counters[k]
		if c == nil {
			continue // forgotten
		}
		c.reserved = c.reserved.Minus(h.want)
		c.used = c.used.Plus(spent)
		c.mark = max(c.mark, mark)
		c.open--
		if c.open == 0 && c.over(now) {
			delete(m.counters, k)
		}
	}
	return nil
}

// keepEnded is the time for which a counter is kept after its window. If the
// clock was ahead and is set back into the window, the counter must still
// exist.
const keepEnded = 24 * time.Hour

// over reports whether the window of a counter ended at least keepEnded ago.
func (c *counter) over(now time.Time) bool {
	return !c.ends.IsZero() && !now.Before(c.ends.Add(keepEnded))
}

// sweep drops counters of ended windows once a day, so that callers that do
// not return use no memory.
func (m *Memory) sweep(now time.Time) {
	today := Day.begin(now)
	if !m.swept.Before(today) {
		return
	}
	m.swept = today
	for k, c := range m.counters {
		if c.open == 0 && c.over(now) {
			delete(m.counters, k)
		}
	}
}

// Balances implements Ledger.
func (m *Memory) Balances(_ context.Context, scopes []Scope) ([]Balance, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	out := make([]Balance, len(scopes))
	for i, k := range m.keys(scopes, now) {
		c := m.at(k)
		s := scopes[i]
		s.Limits = s.Limits.Plus(c.granted)
		out[i] = Balance{
			Scope:    s,
			Used:     c.used,
			Reserved: c.reserved,
			Granted:  c.granted,
			Mark:     c.mark,
			Resets:   s.Per.resets(now),
		}
	}
	return out, nil
}

// Forget implements Ledger.
func (m *Memory) Forget(_ context.Context, scopes ...Scope) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.keys(scopes, m.now()) {
		delete(m.counters, k)
	}
	return nil
}

// Len returns the number of counters.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.counters)
}
