package session_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/host/internal/orchestration/session/sessiontest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// SES-001, SES-002, SES-004, SES-010, SES-012, SES-013, SES-021, SES-030: the store
// in memory passes the suite of stores. The other store passes it in its package.
func TestMemory(t *testing.T) {
	sessiontest.Suite(t, func(*testing.T) session.Store { return &session.Memory{} })
}

// SES-011: by-operation replaces the default, by-intent both, each key on its own;
// an absent key permits everything and an empty one nothing.
func TestPolicyMerge(t *testing.T) {
	sets := rapid.SampledFrom([][]string{nil, {}, {"a"}, {"b", "c"}})
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) session.Access {
			return session.Access{Read: sets.Draw(t, name+" read"), Write: sets.Draw(t, name+" write"), Delete: sets.Draw(t, name+" delete")}
		}
		whole, op, intent := draw("default"), draw("operation"), draw("intent")
		p := session.Policy{
			Default:     whole,
			ByOperation: map[string]session.Access{"op": op},
			Intent:      map[string]session.Access{"in": intent},
		}
		last := func(of ...[]string) (out []string) {
			for _, set := range of {
				if set != nil {
					out = set
				}
			}
			return out
		}
		assert.Equal(t, whole, p.Effective("", ""))
		assert.Equal(t, whole, p.Effective("other", "other"))
		got := p.Effective("op", "in")
		assert.Equal(t, last(whole.Read, op.Read, intent.Read), got.Read)
		assert.Equal(t, last(whole.Write, op.Write, intent.Write), got.Write)
		assert.Equal(t, last(whole.Delete, op.Delete, intent.Delete), got.Delete)
		assert.Equal(t, last(whole.Write, op.Write), p.Effective("op", "").Write)
		assert.Equal(t, last(whole.Delete, intent.Delete), p.Effective("", "in").Delete)
	})
}

// SES-011: the restrictive rules cover reads and writes of an intent.
func TestRestrictiveRules(t *testing.T) {
	r := session.Restrictive()
	assert.Equal(t, []string{"session", "project"}, r.Policy.Effective(session.OpDefaults, "").Read)
	assert.Equal(t, []string{"session", "conversation"}, r.Policy.Effective("session/put-var", "text/respond").Write)
	assert.Nil(t, session.Permissive().Policy.Effective("session/put-var", "text/respond").Write)
}

// SES-016: a window keeps the last turns that fit as a whole, and begins with a
// turn of the user.
func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := session.Window{Turns: rapid.IntRange(0, 6).Draw(t, "turns"), Chars: rapid.IntRange(0, 30).Draw(t, "chars")}
		roles := rapid.SampledFrom([]string{session.RoleUser, session.RoleAssistant})
		all := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) session.Turn {
			return session.Turn{Role: roles.Draw(t, "role"), Text: strings.Repeat("ż", rapid.IntRange(0, 12).Draw(t, "length"))}
		}), 0, 8).Draw(t, "all")
		kept, cut := w.Cut(all)
		chars := 0
		for _, turn := range kept {
			chars += len([]rune(turn.Text))
		}
		assert.LessOrEqual(t, len(kept), w.Turns)
		assert.LessOrEqual(t, chars, w.Chars)
		assert.Equal(t, cut, len(kept) < len(all))
		assert.True(t, slices.Equal(all[len(all)-len(kept):], kept))
		if cut && len(kept) > 0 {
			assert.Equal(t, session.RoleUser, kept[0].Role)
		}
	})
}

// SES-011: the access of an operation on one variable holds for the one on several, and
// the other way round, unless that has its own.
func TestPolicyOfAlikeOperations(t *testing.T) {
	one, other := session.Access{Read: []string{"a"}, Write: []string{"a"}, Delete: []string{"a"}}, session.Access{Write: []string{"b"}}
	for _, names := range [][]string{
		{"session/put-var", "session/put-vars"},
		{"session/get-var", "session/get-vars"},
		{"session/del-var", "session/del-vars", "session/del-all-vars"},
	} {
		for _, set := range names {
			p := session.Policy{ByOperation: map[string]session.Access{set: one}}
			for _, used := range names {
				assert.Equal(t, one, p.Effective(used, ""), "%s by %s", used, set)
			}
			assert.Equal(t, session.Access{}, p.Effective("session/open", ""))
		}
	}
	p := session.Policy{ByOperation: map[string]session.Access{"session/put-var": one, "session/put-vars": other}}
	assert.Equal(t, []string{"a"}, p.Effective("session/put-var", "").Write)
	assert.Equal(t, session.Access{Read: []string{"a"}, Write: []string{"b"}, Delete: []string{"a"}}, p.Effective("session/put-vars", ""))
}

// failing cannot write one session.
type failing struct {
	session.Memory
	id string
}

func (f *failing) Update(ctx context.Context, id string, change func(session.Stored) (session.Change, error)) error {
	if id == f.id {
		return context.DeadlineExceeded
	}
	return f.Memory.Update(ctx, id, change)
}

// SES-020: a session that cannot be frozen does not keep others hot, or their servers.
func TestCoolGoesOnAfterAFailure(t *testing.T) {
	ctx, clock, store := context.Background(), &sessiontest.Clock{At: sessiontest.Start}, &failing{}
	rules := session.Permissive()
	rules.MaxHot = 1
	var told []string
	s := session.New(store, rules, func(_ context.Context, id, intent string) (int, *contract.Error) {
		told = append(told, intent+" "+id)
		return 1, nil
	}, clock.Now)
	for _, id := range []string{"a", "b", "c"} {
		_, err := s.Open(ctx, session.Caller{Principal: "ann"}, session.Ref{ID: id}, edn.Nil())
		require.Nil(t, err)
		clock.At = clock.At.Add(time.Second)
	}
	store.id = "a"
	cooled, err := s.Cool(ctx)
	require.NotNil(t, err)
	assert.Equal(t, "session/store-unavailable", err.Type)
	assert.Equal(t, []session.Cooled{{ID: "b", By: session.ByHotLimit}, {ID: "c", By: session.ByHotLimit}}, cooled)
	assert.Equal(t, []string{"model/quit b", "model/quit c"}, told)
}

// SES-020: hosts that share a store do not freeze each other's sessions in use, each keeps
// its own limit, and a frozen session has no model server on any of them.
func TestHostsShareSessions(t *testing.T) {
	ctx, clock, store := t.Context(), &sessiontest.Clock{At: sessiontest.Start}, &session.Memory{}
	rules, ann := session.Permissive(), session.Caller{Principal: "ann"}
	rules.MaxHot, rules.IdleTTL = 1, time.Hour
	told := map[string][]string{}
	host := func(name string) *session.Service {
		s := session.New(store, rules, func(_ context.Context, id, intent string) (int, *contract.Error) {
			told[name] = append(told[name], intent+" "+id)
			return 1, nil
		}, clock.Now)
		s.Share()
		return s
	}
	a, b := host("a"), host("b")
	cool := func(s *session.Service) []session.Cooled {
		cooled, err := s.Cool(ctx)
		require.Nil(t, err)
		return cooled
	}
	pass := func(d time.Duration) {
		clock.At = clock.At.Add(d)
		for _, s := range []*session.Service{a, b} {
			_, err := s.Upkeep(ctx)
			require.Nil(t, err)
		}
	}
	for _, id := range []string{"busy", "idle", "other"} {
		_, err := b.Open(ctx, ann, session.Ref{ID: id}, edn.Nil())
		require.Nil(t, err)
		pass(time.Second)
	}
	release := b.Use("busy")
	b.Use("idle")()
	a.Use("other")()
	assert.Empty(t, cool(a), "the sessions of host b do not count")
	assert.Equal(t, []session.Cooled{{ID: "idle", By: session.ByHotLimit}}, cool(b))
	for range 5 {
		pass(time.Hour)
		for _, c := range cool(a) {
			assert.Equal(t, "other", c.ID, "busy has a run on host b")
		}
	}
	release()
	pass(time.Hour)
	assert.Empty(t, cool(a), "host b may still use it")
	pass(time.Hour)
	assert.Equal(t, []session.Cooled{{ID: "busy", By: session.ByIdleTTL}}, cool(a))
	told["b"] = nil
	assert.Empty(t, cool(b))
	assert.Equal(t, []string{"model/quit busy"}, told["b"], "host a has frozen it")
	assert.Empty(t, cool(b))
	assert.Len(t, told["b"], 1)
}

// untouched cannot write access times.
type untouched struct {
	session.Memory
	broken bool
}

func (u *untouched) Touch(ctx context.Context, at map[string]time.Time) error {
	if u.broken {
		return context.DeadlineExceeded
	}
	return u.Memory.Touch(ctx, at)
}

// SES-020: access times that could not be written are written later, the latest of each.
func TestUpkeepKeepsAccessTimes(t *testing.T) {
	ctx, clock, store := t.Context(), &sessiontest.Clock{At: sessiontest.Start}, &untouched{broken: true}
	s := session.New(store, session.Permissive(), nil, clock.Now)
	ann := session.Caller{Principal: "ann"}
	for _, id := range []string{"a", "b"} {
		_, err := s.Open(ctx, ann, session.Ref{ID: id}, edn.Nil())
		require.Nil(t, err)
	}
	read := func(id string) {
		clock.At = clock.At.Add(time.Minute)
		_, err := s.Get(ctx, ann, id)
		require.Nil(t, err)
	}
	read("a")
	read("b")
	_, err := s.Upkeep(ctx)
	require.NotNil(t, err)
	read("b")
	store.broken = false
	_, err = s.Upkeep(ctx)
	require.Nil(t, err)
	for id, after := range map[string]time.Duration{"a": time.Minute, "b": 3 * time.Minute} {
		of, ok, failure := store.Session(ctx, id)
		require.NoError(t, failure)
		require.True(t, ok)
		assert.Equal(t, sessiontest.Start.Add(after), of.Accessed, id)
	}
}
