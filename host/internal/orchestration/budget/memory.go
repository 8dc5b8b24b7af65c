package budget

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
)

// Memory is a Ledger in memory. Without a Keeper a restart of the process
// resets it.
type Memory struct {
	now    func() time.Time
	keeper Keeper // nil: all counters are lost at a restart

	mu       sync.Mutex
	counters map[Window]*counter
	swept    time.Time // day of the last sweep
}

var _ Ledger = (*Memory)(nil)

// Keeper stores the counters of scopes that outlive runs. It derives the costs of runs
// from their records; a Ledger passes it only the changes that no record contains.
type Keeper interface {
	// Counters returns all stored counters. Reserved holds the reservations of open runs.
	Counters(ctx context.Context) ([]Counter, error)
	// Add queues changes for the next commit. wait returns when they are durable.
	Add(changes ...Counter) (wait func(ctx context.Context) error)
}

// NewMemory returns an empty ledger; now is the clock, nil for the system
// clock.
func NewMemory(now func() time.Time) *Memory {
	if now == nil {
		now = time.Now
	}
	return &Memory{now: now, counters: map[Window]*counter{}}
}

// NewKept returns a ledger that continues the counters of a keeper. No other ledger may
// use the keeper. The error is that of Keeper.Counters.
func NewKept(ctx context.Context, k Keeper, now func() time.Time) (*Memory, error) {
	all, err := k.Counters(ctx)
	if err != nil {
		return nil, err
	}
	m := NewMemory(now)
	m.keeper = k
	for _, c := range all {
		at := m.adopted(c.Window)
		at.used, at.reserved, at.granted, at.mark = c.Used, c.Reserved, c.Granted, c.Mark
	}
	return m, nil
}

type counter struct {
	used, reserved policy.Amounts
	granted        policy.Amounts
	mark           Mark
	open           int       // open reservations
	ends           time.Time // end of the window; zero: never
}

// held is a reservation. It is settled in the windows in which it was made, even if
// later ones have begun since.
type held struct {
	windows []Window
	want    policy.Amounts
	settled bool
	term    int64 // of a shared ledger
}

func windowsOf(scopes []Scope, now time.Time) []Window {
	out := make([]Window, len(scopes))
	for i, s := range scopes {
		out[i] = Window{s.Kind, s.ID, s.Per.begin(now)}
	}
	return out
}

func (m *Memory) at(k Window) counter {
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
	windows := windowsOf(scopes, now)
	for i, s := range scopes {
		c := m.at(windows[i])
		if full := s.Admit(Counter{Used: c.used, Reserved: c.reserved, Granted: c.granted}, want, now); full != nil {
			return Reservation{}, full
		}
	}
	m.sweep(now)
	for i, k := range windows {
		c := m.counter(k, scopes[i], now)
		c.reserved = c.reserved.Plus(want)
		c.open++
	}
	return Reservation{&held{windows: windows, want: want}}, nil
}

// Adopt implements Ledger.
func (m *Memory) Adopt(_ context.Context, windows []Window, want policy.Amounts) (Reservation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range windows {
		m.adopted(k).open++
	}
	return Reservation{&held{windows: windows, want: want}}, nil
}

// adopted returns the counter of a window, creating it if needed. A Window does not tell
// a day from a month, so a new counter is kept as long as that of a month.
func (m *Memory) adopted(k Window) *counter {
	c := m.counters[k]
	if c == nil {
		c = &counter{}
		if !k.Begin.IsZero() {
			c.ends = Month.resets(k.Begin)
		}
		m.counters[k] = c
	}
	return c
}

// counter returns the counter of a scope, creating it if needed.
func (m *Memory) counter(k Window, s Scope, now time.Time) *counter {
	c := m.counters[k]
	if c == nil {
		c = &counter{ends: s.Per.resets(now)}
		m.counters[k] = c
	}
	return c
}

// Adjust implements Ledger. With a Keeper it waits until the change is durable, even if
// ctx ends.
func (m *Memory) Adjust(ctx context.Context, s Scope, a Adjustment) error {
	now := m.now()
	k := windowsOf([]Scope{s}, now)[0]
	if m.keeper != nil && k.Kind.Lasts() {
		wait := m.keeper.Add(Counter{Window: k, Used: a.Charge, Granted: a.Grant})
		if err := wait(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.counter(k, s, now)
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
		if k.Kind == kind && k.Begin.Equal(begin) {
			out = append(out, k.ID)
		}
	}
	slices.Sort(out)
	return out, nil
}

// Settle implements Ledger.
func (m *Memory) Settle(_ context.Context, r Reservation, spent policy.Amounts, mark Mark) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settle(r.held, spent, mark)
	return nil
}

// Post implements Ledger.
func (m *Memory) Post(_ context.Context, r Reservation, spent policy.Amounts, mark Mark) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.settle(r.held, spent, mark) || m.keeper == nil {
		return nil
	}
	var changes []Counter
	for _, k := range r.held.windows {
		if k.Kind.Lasts() {
			changes = append(changes, Counter{Window: k, Used: spent, Mark: mark})
		}
	}
	m.keeper.Add(changes...)
	return nil
}

// settle settles a reservation and reports whether it was open. The caller holds m.mu.
func (m *Memory) settle(h *held, spent policy.Amounts, mark Mark) bool {
	if h == nil || h.settled {
		return false
	}
	h.settled = true
	now := m.now()
	for _, k := range h.windows {
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
	return true
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
	for i, k := range windowsOf(scopes, now) {
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
	for _, k := range windowsOf(scopes, m.now()) {
		delete(m.counters, k)
	}
	return nil
}

// Len returns the number of counters in memory.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.counters)
}
