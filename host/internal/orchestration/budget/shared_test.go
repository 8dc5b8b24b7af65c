package budget_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/budget"
)

// bank is the plainest SharedKeeper: what is settled, and what each host has
// reserved. Its state is durable at once.
type bank struct {
	mu       sync.Mutex
	settled  map[budget.Window]budget.Counter
	reserved map[*branch]map[budget.Window]policy.Amounts
}

func newBank() *bank {
	return &bank{settled: map[budget.Window]budget.Counter{}, reserved: map[*branch]map[budget.Window]policy.Amounts{}}
}

// branch is the bank as one host sees it.
type branch struct {
	*bank
	term int64
	err  error // of everything that the host asks for
}

func (b *bank) host() *branch {
	h := &branch{bank: b, term: 1}
	b.reserved[h] = map[budget.Window]policy.Amounts{}
	return h
}

// tally needs the lock.
func (b *bank) tally(w budget.Window) budget.Counter {
	c := b.settled[w]
	c.Window = w
	for _, own := range b.reserved {
		c.Reserved = c.Reserved.Plus(own[w])
	}
	return c
}

func (h *branch) Counters(context.Context) ([]budget.Counter, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []budget.Counter
	for w := range h.settled {
		out = append(out, h.tally(w))
	}
	return out, h.err
}

func (h *branch) Add(changes ...budget.Counter) func(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range changes {
		if h.err != nil {
			break
		}
		was := h.settled[c.Window]
		h.settled[c.Window] = was.Plus(budget.Counter{Used: c.Used, Granted: c.Granted, Mark: c.Mark})
		if c.Term == h.term {
			h.reserved[h][c.Window] = h.reserved[h][c.Window].Plus(c.Reserved).Minus(c.Released)
		}
	}
	return func(ctx context.Context) error { return errors.Join(h.err, ctx.Err()) }
}

func (h *branch) Reserve(_ context.Context, scopes []budget.Scope, now time.Time, want policy.Amounts) (int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	windows := budget.Windows(scopes, now)
	for i, s := range scopes {
		if full := s.Admit(h.tally(windows[i]), want, now); full != nil {
			return 0, full
		}
	}
	if h.err != nil {
		return 0, h.err
	}
	for _, w := range windows {
		h.reserved[h][w] = h.reserved[h][w].Plus(want)
	}
	return h.term, nil
}

func (h *branch) Term() int64 { return h.term }

func (h *branch) Tallies(_ context.Context, windows []budget.Window) ([]budget.Counter, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]budget.Counter, len(windows))
	for i, w := range windows {
		out[i] = h.tally(w)
	}
	return out, h.err
}

func (h *branch) Seen(_ context.Context, kind budget.Kind, begin time.Time) ([]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for w := range h.settled {
		if w.Kind == kind && w.Begin.Equal(begin) {
			out = append(out, w.ID)
		}
	}
	slices.Sort(out)
	return out, h.err
}

// record is what the record of a cost does when it is durable: the cost counts
// and is not reserved any more.
func (h *branch) record(scopes []budget.Scope, now time.Time, spent policy.Amounts) {
	for _, w := range budget.Windows(scopes, now) {
		if w.Kind.Lasts() {
			h.Add(budget.Counter{Window: w, Used: spent, Released: spent, Term: h.term})
		}
	}
}

// lose is the loss of everything that the host has reserved to another one.
func (h *branch) lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reserved[h] = map[budget.Window]policy.Amounts{}
	h.term++
}

// figures are the amounts of balances.
func figures(t require.TestingT, l budget.Ledger, scopes ...budget.Scope) (out []string) {
	all, err := l.Balances(context.Background(), scopes)
	require.NoError(t, err)
	for _, b := range all {
		out = append(out, fmt.Sprint(b.Scope, " used ", b.Used.Value(), " reserved ", b.Reserved.Value(), " left ", b.Left().Value(),
			" ", b.Mark, " ", b.Resets))
	}
	return out
}

// BUD-002, LED-007: concurrent callers of two hosts with one budget for one call;
// one runs, the others receive the reason.
func TestOneOfManyCallersOfTwoHosts(t *testing.T) {
	now := func() time.Time { return time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC) }
	b := newBank()
	hosts := []budget.Ledger{budget.NewShared(b.host(), now), budget.NewShared(b.host(), now)}
	user := budget.Scope{Kind: budget.User, ID: "ann", Limits: limits(t, "{:max-attempts 1}"), Per: budget.Day}
	var begin, done sync.WaitGroup
	begin.Add(1)
	var got atomic.Int32
	for i := range 64 {
		done.Go(func() {
			begin.Wait()
			run := budget.Scope{Kind: budget.Run, ID: fmt.Sprint(i)}
			_, err := hosts[i%2].Reserve(t.Context(), []budget.Scope{user, run}, attempts(1))
			held := attempts(1)
			if err == nil {
				got.Add(1)
			} else {
				var full *budget.ExceededError
				assert.ErrorAs(t, err, &full)
				held = attempts(0)
			}
			all, err := hosts[i%2].Balances(t.Context(), []budget.Scope{run})
			if assert.NoError(t, err) {
				assert.Equal(t, held, all[0].Reserved, "in the scope of the run as in that of the user")
			}
		})
	}
	begin.Done()
	done.Wait()
	assert.EqualValues(t, 1, got.Load())
}

// LED-002, LED-003, LED-007: two hosts count together like one ledger in memory,
// except that a cost stays reserved until its record is durable; a scope that ends
// with its run counts in its host alone.
func TestSharedFollowsMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 11, 30, 13, 0, 0, 0, time.UTC)
		at := func() time.Time { return now }
		b := newBank()
		one := budget.NewMemory(at)
		keepers := []*branch{b.host(), b.host()}
		hosts := []budget.Ledger{budget.NewShared(keepers[0], at), budget.NewShared(keepers[1], at)}
		per := rapid.SampledFrom([]budget.Per{budget.Total, budget.Day, budget.Month, ""})
		limit := func(name string) policy.Limits {
			return limitsOf(t, fmt.Sprintf("{:max-attempts %d}", rapid.IntRange(0, 60).Draw(t, name)))
		}
		tenant := budget.Scope{Kind: budget.Tenant, ID: "lab", Limits: limit("tenant"), Per: per.Draw(t, "per tenant")}
		user := budget.Scope{Kind: budget.User, ID: "ann", Limits: limit("user"), Per: per.Draw(t, "per user")}
		runs := []budget.Scope{
			{Kind: budget.Run, ID: "r0", Limits: limit("run 0")},
			{Kind: budget.Run, ID: "r1", Limits: limit("run 1")},
		}
		chains := func(i int) []budget.Scope {
			return rapid.SampledFrom([][]budget.Scope{{tenant, user, runs[i]}, {user, runs[i]}, {runs[i]}, {tenant}}).Draw(t, "chain")
		}
		type open struct {
			host           int
			scopes         []budget.Scope
			shared, memory budget.Reservation
			made           time.Time
		}
		var pairs []open
		amount := rapid.Int64Range(0, 12)
		ctx := context.Background()
		t.Repeat(map[string]func(*rapid.T){
			"reserve": func(t *rapid.T) {
				i := rapid.IntRange(0, 1).Draw(t, "host")
				scopes, want := chains(i), attempts(amount.Draw(t, "want"))
				shared, err := hosts[i].Reserve(ctx, scopes, want)
				memory, expected := one.Reserve(ctx, scopes, want)
				require.Equal(t, expected == nil, err == nil, "%v and %v", expected, err)
				var full *budget.ExceededError
				if errors.As(err, &full) { // of several full scopes it may name another one
					all, err := one.Balances(ctx, scopes)
					require.NoError(t, err)
					i := slices.IndexFunc(all, func(b budget.Balance) bool { return b.Scope.Kind == full.Scope.Kind })
					assert.Equal(t, &budget.ExceededError{
						Scope:     all[i].Scope,
						Dimension: policy.Attempts,
						Asked:     want,
						Left:      all[i].Left(),
						Resets:    all[i].Resets,
					}, full)
					assert.True(t, want.Exceeds(full.Left.Amounts(), policy.Attempts))
				}
				if err == nil {
					assert.Equal(t, memory.Begins(), shared.Begins())
					pairs = append(pairs, open{i, scopes, shared, memory, now})
				}
			},
			"end": func(t *rapid.T) {
				if len(pairs) == 0 {
					t.Skip("nothing is open")
				}
				i := rapid.IntRange(0, len(pairs)-1).Draw(t, "which")
				p, spent := pairs[i], attempts(amount.Draw(t, "spent"))
				pairs = slices.Delete(pairs, i, i+1)
				mark := rapid.SampledFrom([]budget.Mark{budget.Exact, budget.AtLeast}).Draw(t, "mark")
				if rapid.Bool().Draw(t, "without a record") {
					require.NoError(t, hosts[p.host].Post(ctx, p.shared, spent, mark))
				} else {
					require.NoError(t, hosts[p.host].Settle(ctx, p.shared, spent, budget.Exact))
					keepers[p.host].record(p.scopes, p.made, spent)
					mark = budget.Exact
				}
				require.NoError(t, hosts[p.host].Settle(ctx, p.shared, spent, budget.Unknown), "a second time")
				require.NoError(t, one.Settle(ctx, p.memory, spent, mark))
			},
			"adjust": func(t *rapid.T) {
				i := rapid.IntRange(0, 1).Draw(t, "host")
				s := rapid.SampledFrom([]budget.Scope{tenant, user, runs[i]}).Draw(t, "scope")
				by := budget.Adjustment{Grant: attempts(amount.Draw(t, "grant")), Charge: attempts(amount.Draw(t, "charge"))}
				require.NoError(t, hosts[i].Adjust(ctx, s, by))
				require.NoError(t, one.Adjust(ctx, s, by))
			},
			"later": func(*rapid.T) { now = now.Add(5 * time.Hour) },
			"": func(t *rapid.T) {
				for i, l := range hosts {
					all := []budget.Scope{runs[i], tenant, user}
					assert.Equal(t, figures(t, one, all...), figures(t, l, all...))
				}
			},
		})
	})
}

// LED-002: until the record of a cost is durable, the cost stays reserved, and the
// rest of the reservation is free.
func TestSharedCostIsReservedUntilItsRecord(t *testing.T) {
	now := func() time.Time { return time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC) }
	b := newBank()
	k := b.host()
	l, other := budget.NewShared(k, now), budget.NewShared(b.host(), now)
	user := budget.Scope{Kind: budget.User, ID: "ann", Limits: limits(t, "{:max-attempts 9}"), Per: budget.Day}
	r, err := l.Reserve(t.Context(), []budget.Scope{user}, attempts(5))
	require.NoError(t, err)
	require.NoError(t, l.Settle(t.Context(), r, attempts(2), budget.Exact))
	const ends = " exact 2026-11-22 00:00:00 +0000 UTC"
	want := []string{"user ann used {} reserved {:attempts 2} left {:max-attempts 7}" + ends}
	assert.Equal(t, want, figures(t, l, user))
	assert.Equal(t, want, figures(t, other, user), "and so another host sees it")
	k.record([]budget.Scope{user}, now(), attempts(2))
	want = []string{"user ann used {:attempts 2} reserved {} left {:max-attempts 7}" + ends}
	assert.Equal(t, want, figures(t, l, user))
	assert.Equal(t, want, figures(t, other, user))
}

// LED-005: when a host loses what it has reserved, the reservations of before have no
// effect on those of after it.
func TestSharedTerms(t *testing.T) {
	now := func() time.Time { return time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC) }
	k := newBank().host()
	l := budget.NewShared(k, now)
	scopes := []budget.Scope{{Kind: budget.User, ID: "ann"}, {Kind: budget.Run, ID: "r"}}
	before, err := l.Reserve(t.Context(), scopes, attempts(5))
	require.NoError(t, err)
	k.lose()
	after, err := l.Reserve(t.Context(), scopes, attempts(3))
	require.NoError(t, err)
	require.NoError(t, l.Settle(t.Context(), before, attempts(4), budget.Exact))
	reserved := func() (out []string) {
		all, err := l.Balances(t.Context(), scopes)
		require.NoError(t, err)
		for _, b := range all {
			out = append(out, b.Reserved.Value().String())
		}
		return out
	}
	assert.Equal(t, []string{"{:attempts 3}", "{:attempts 3}"}, reserved())
	require.NoError(t, l.Settle(t.Context(), after, attempts(3), budget.Exact))
	assert.Equal(t, []string{"{:attempts 3}", "{}"}, reserved(), "until it is recorded")
	k.record(scopes, now(), attempts(3))
	assert.Equal(t, []string{"{}", "{}"}, reserved())
}

// LED-005: a resumed run settles what it has reserved in another process: the keeper
// counts it with the run, and the scopes of the run begin at zero.
func TestSharedAdopt(t *testing.T) {
	now := func() time.Time { return time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC) }
	k := newBank().host()
	k.lose() // the second term
	scopes := []budget.Scope{{Kind: budget.User, ID: "ann", Per: budget.Day}, {Kind: budget.Run, ID: "r"}}
	windows := budget.Windows(scopes, now())
	k.Add(budget.Counter{Window: windows[0], Reserved: attempts(5), Term: k.term})
	l := budget.NewShared(k, now)
	r, err := l.Adopt(t.Context(), windows, attempts(5))
	require.NoError(t, err)
	assert.Equal(t, map[string]time.Time{"user": windows[0].Begin}, r.Begins())
	const ends = " exact 2026-11-22 00:00:00 +0000 UTC"
	assert.Equal(t, "user ann used {} reserved {:attempts 5} left {}"+ends, figures(t, l, scopes...)[0])
	require.NoError(t, l.Post(t.Context(), r, attempts(2), budget.Exact))
	assert.Equal(t, "user ann used {:attempts 2} reserved {} left {}"+ends, figures(t, l, scopes...)[0])
	assert.Equal(t, "the run used {:attempts 2} reserved {} left {} exact 0001-01-01 00:00:00 +0000 UTC", figures(t, l, scopes...)[1])
	assert.Len(t, windows, 2)
	assert.Equal(t, budget.Run, windows[1].Kind, "the windows of the caller are left as they are")
}

// LED-002: what cannot be written fails closed: nothing is reserved anywhere, nothing
// is changed by hand, and no balance is shown.
func TestSharedFailsClosed(t *testing.T) {
	lost := errors.New("lost")
	k := newBank().host()
	l := budget.NewShared(k, nil)
	user, run := budget.Scope{Kind: budget.User, ID: "ann"}, budget.Scope{Kind: budget.Run, ID: "r"}
	k.err = lost
	_, err := l.Reserve(t.Context(), []budget.Scope{user, run}, attempts(5))
	require.ErrorIs(t, err, lost)
	_, err = l.Balances(t.Context(), []budget.Scope{run, user})
	require.ErrorIs(t, err, lost)
	_, err = l.Seen(t.Context(), budget.User, budget.Total)
	require.ErrorIs(t, err, lost)
	require.ErrorIs(t, l.Adjust(t.Context(), user, budget.Adjustment{Grant: attempts(1)}), lost)

	all, err := l.Balances(t.Context(), []budget.Scope{run})
	require.NoError(t, err)
	assert.True(t, all[0].Reserved.IsZero())

	k.err = nil
	all, err = l.Balances(t.Context(), []budget.Scope{user})
	require.NoError(t, err)
	assert.True(t, all[0].Used.IsZero() && all[0].Reserved.IsZero() && all[0].Granted.IsZero())
}

// LED-001: a run without a scope that outlives it asks no keeper.
func TestSharedOfARunAlone(t *testing.T) {
	l := budget.NewShared(nil, nil)
	run := budget.Scope{Kind: budget.Run, ID: "r"}
	r, err := l.Reserve(t.Context(), []budget.Scope{run}, attempts(3))
	require.NoError(t, err)
	require.NoError(t, l.Settle(t.Context(), r, attempts(1), budget.Exact))
	require.NoError(t, l.Adjust(t.Context(), run, budget.Adjustment{Charge: attempts(1)}))
	seen, err := l.Seen(t.Context(), budget.Run, budget.Total)
	require.NoError(t, err)
	assert.Equal(t, []string{"r"}, seen)
	all, err := l.Balances(t.Context(), []budget.Scope{run})
	require.NoError(t, err)
	assert.Equal(t, attempts(2), all[0].Used)
}

// LED-004, LED-006: a caller that any host has seen is listed by each; a change by
// hand is awaited also when its caller has left.
func TestSharedSeenAndAdjusted(t *testing.T) {
	now := func() time.Time { return time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC) }
	b := newBank()
	l, other := budget.NewShared(b.host(), now), budget.NewShared(b.host(), now)
	gone, leave := context.WithCancel(t.Context())
	leave()
	user := budget.Scope{Kind: budget.User, ID: "ann", Limits: limits(t, "{:max-attempts 1}"), Per: budget.Day}
	require.NoError(t, l.Adjust(gone, user, budget.Adjustment{Grant: attempts(4), Charge: attempts(3)}))
	for _, l := range []budget.Ledger{l, other} {
		seen, err := l.Seen(t.Context(), budget.User, budget.Day)
		require.NoError(t, err)
		assert.Equal(t, []string{"ann"}, seen)
		all, err := l.Balances(t.Context(), []budget.Scope{user})
		require.NoError(t, err)
		assert.Equal(t, attempts(4), all[0].Granted)
		assert.Equal(t, "{:max-attempts 2}", all[0].Left().Value().String())
		assert.Equal(t, "{:max-attempts 5}", all[0].Scope.Limits.Value().String())
		seen, err = l.Seen(t.Context(), budget.User, budget.Month)
		require.NoError(t, err)
		assert.Empty(t, seen)
	}
}
