package identity_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/sdk/contract"
)

const password = "three small words"

// settings have hashes that cost little.
func settings() *identity.Settings {
	return &identity.Settings{
		Required:    true,
		Known:       []string{policy.RoleAdmin, policy.RoleAnonymous, "role/auditor", "role/machine", policy.RoleOperator, policy.RoleUser},
		Anonymous:   policy.RoleAnonymous,
		LoggedIn:    policy.RoleUser,
		Account:     map[string][]string{"system": {"role/machine"}},
		Strong:      []string{"system", "manager"},
		Basic:       identity.Basic{Enabled: true, Remember: time.Minute, MinBytes: 12, Memory: 64, Time: 1},
		TokenTTL:    90 * 24 * time.Hour,
		MaxTokenTTL: 365 * 24 * time.Hour,
		Locks: identity.Locks{
			StrongMax: 8, Max: 10, StrongWindow: 300 * time.Second, Window: 10 * time.Minute, Forgive: time.Minute, MaxDelay: 2 * time.Second,
		},
	}
}

type world struct {
	*identity.Service
	t   testing.TB
	set *identity.Settings
}

func newWorld(t testing.TB, store identity.Store) world {
	t.Helper()
	s, err := identity.Open(t.Context(), store)
	require.NoError(t, err)
	return world{s, t, settings()}
}

func (w world) add(login, typ string, roles ...string) identity.User {
	w.t.Helper()
	u, err := w.AddUser(w.t.Context(), w.set, identity.NewUser{Login: login, Type: typ, Roles: roles, Password: password})
	require.Nil(w.t, err)
	return u
}

func (w world) token(owner string, n policy.Narrowing) (identity.Token, string) {
	w.t.Helper()
	t, text, err := w.AddToken(w.t.Context(), w.set, identity.NewToken{Owner: owner, Narrow: n})
	require.Nil(w.t, err)
	return t, text
}

func (w world) login(login, password, network string) (identity.Principal, *contract.Error) {
	return w.Password(w.t.Context(), w.set, identity.Login{Name: login, Password: password, Network: network})
}

func typed(t testing.TB, typ string, err *contract.Error) {
	t.Helper()
	require.NotNil(t, err)
	assert.Equal(t, typ, err.Type, err.Message)
}

// AUTH-006: the roles of a principal are those of its account type, its own, that of
// all users, and the global ones; the anonymous role is only that of
// callers without account. A granted role that the configuration does not know counts
// for nothing.
func TestRolesOfPrincipals(t *testing.T) {
	set := settings()
	set.Global = []string{"role/auditor"}
	u := identity.User{ID: "user/1", Type: "system", Roles: []string{policy.RoleOperator, "role/gone"}}
	assert.Equal(t, []string{"role/auditor", "role/machine", policy.RoleOperator, policy.RoleUser}, (&identity.Accounts{}).RolesOf(set, &u))
	assert.Equal(t, []string{policy.RoleAnonymous, "role/auditor"}, set.Nameless("anonymous").Roles)
	assert.Equal(t, []string{"manager", "simple", "system"}, set.Types())
}

// AUTH-002: a password admits its user, in every Unicode form of it, and no other.
func TestPassword(t *testing.T) {
	w := newWorld(t, &identity.Memory{})
	u, err := w.AddUser(t.Context(), w.set, identity.NewUser{Login: "ann", Password: "na\u00efve three words"})
	require.Nil(t, err)
	assert.NotContains(t, u.Password, "three")
	assert.Regexp(t, `^\$argon2id\$v=19\$m=64,t=1,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$`, u.Password)
	p, err := w.login("ann", "nai\u0308ve three words", "n")
	require.Nil(t, err)
	assert.Equal(t, identity.Principal{Name: u.ID, Type: "simple", Login: "ann", Roles: []string{policy.RoleUser}}, p)
	for _, try := range [][2]string{
		{"ann", "naive three words"}, {"ann", ""}, {"bob", "na\u00efve three words"}, {"", ""}, {"ann", strings.Repeat("x", 5000)},
	} {
		_, err := w.login(try[0], try[1], "m"+try[0])
		typed(t, "auth/unauthorized", err)
		assert.Equal(t, "the credentials are not valid", err.Message)
	}
	for _, bad := range []string{"short", strings.Repeat("x", 1025), "not\xff\xfeutf-8 at all"} {
		_, err := w.SetPassword(t.Context(), w.set, "ann", bad)
		typed(t, "invalid-request", err)
	}

	// Its length is that of the normalized text, when it is set and when it is given.
	_, err = w.SetPassword(t.Context(), w.set, "ann", strings.Repeat("e\u0301", 400))
	require.Nil(t, err)
	for _, spelling := range []string{"e\u0301", "\u00e9"} {
		_, err = w.login("ann", strings.Repeat(spelling, 400), "n")
		assert.Nil(t, err)
	}
}

// AUTH-002: a hash with smaller parameters is replaced at the next login.
func TestHashesAreStrengthened(t *testing.T) {
	w := newWorld(t, &identity.Memory{})
	old := w.add("ann", "")
	w.set.Basic.Memory, w.set.Basic.Time = 128, 2
	_, err := w.login("ann", password, "n")
	require.Nil(t, err)
	now, _ := w.User(t.Context(), "ann")
	assert.NotEqual(t, old.Password, now.Password)
	assert.Contains(t, now.Password, "$m=128,t=2,p=1$")
	_, err = w.login("ann", password, "n")
	require.Nil(t, err)
	same, _ := w.User(t.Context(), "ann")
	assert.Equal(t, now.Password, same.Password)
}

// AUTH-002: a verified login is remembered for a time. A changed password, a lock and
// a deletion end that at once; a role counts at once.
func TestRememberedLogins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &identity.Memory{})
		w.add("ann", "")
		l := identity.Login{Name: "ann", Password: password, Network: "n"}
		known := func() bool { _, ok := w.Recall(t.Context(), w.set, l); return ok }
		verify := func() { _, err := w.Password(t.Context(), w.set, l); require.Nil(t, err) }
		assert.False(t, known(), "nothing was verified")
		verify()
		assert.True(t, known())
		_, wrong := w.Recall(t.Context(), w.set, identity.Login{Name: "ann", Password: "another one", Network: "n"})
		assert.False(t, wrong)
		time.Sleep(time.Minute)
		assert.False(t, known(), "its time is over")
		verify()
		_, err := w.Grant(t.Context(), w.set, "ann", policy.RoleOperator)
		require.Nil(t, err)
		p, ok := w.Recall(t.Context(), w.set, l)
		assert.True(t, ok && len(p.Roles) == 2, "%v", p)
		_, err = w.Lock(t.Context(), w.set, "ann", true, false)
		require.Nil(t, err)
		assert.False(t, known(), "locked")
		_, err = w.Password(t.Context(), w.set, l)
		typed(t, "auth/unauthorized", err)
		_, err = w.Lock(t.Context(), w.set, "ann", false, false)
		require.Nil(t, err)
		_, err = w.SetPassword(t.Context(), w.set, "ann", "four other small words")
		require.Nil(t, err)
		assert.False(t, known(), "another password")
	})
}

// AUTH-003: a token has the roles of its owner as far as it is not narrowed, until it
// expires, is revoked, or its owner is locked or deleted.
func TestToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &identity.Memory{})
		ann := w.add("ann", "", policy.RoleOperator)
		narrow := policy.Narrowing{Roles: []string{policy.RoleUser}, Operations: []string{"http.v1/*"}}
		tok, text := w.token("ann", narrow)
		assert.Regexp(t, `^fmt_[a-z0-9]{8}_[A-Za-z0-9_-]{43}[A-Za-z0-9_-]{6}$`, text)
		p, err := w.Token(t.Context(), w.set, text)
		require.Nil(t, err)
		assert.Equal(t, identity.Principal{Name: ann.ID, Type: "simple", Login: "ann", Token: tok.ID,
			Roles: []string{policy.RoleOperator, policy.RoleUser}, Narrow: &narrow}, p)
		assert.True(t, w.Holds(t.Context(), &p))
		_, plain := w.token("ann", policy.Narrowing{})
		q, err := w.Token(t.Context(), w.set, plain)
		require.Nil(t, err)
		assert.Nil(t, q.Narrow)

		_, err = w.Lock(t.Context(), w.set, "ann", true, false)
		require.Nil(t, err)
		_, err = w.Token(t.Context(), w.set, text)
		typed(t, "auth/unauthorized", err)
		assert.False(t, w.Holds(t.Context(), &p), "locked")
		_, err = w.Lock(t.Context(), w.set, "ann", false, false)
		require.Nil(t, err)

		_, err = w.RevokeToken(t.Context(), tok.ID, true)
		require.Nil(t, err)
		assert.True(t, w.Holds(t.Context(), &p), "a dry run revokes nothing")
		_, err = w.RevokeToken(t.Context(), text, false)
		require.Nil(t, err)
		_, err = w.Token(t.Context(), w.set, text)
		typed(t, "auth/unauthorized", err)
		assert.False(t, w.Holds(t.Context(), &p), "revoked")
		_, err = w.RevokeToken(t.Context(), tok.ID, false)
		typed(t, "not-found", err)

		time.Sleep(90 * 24 * time.Hour)
		_, err = w.Token(t.Context(), w.set, plain)
		typed(t, "auth/unauthorized", err)
		assert.Contains(t, err.Message, "expired")
		assert.False(t, w.Holds(t.Context(), &q))
	})
}

// AUTH-003: a token of which any character differs is rejected, without a look at the
// accounts if its checksum tells.
func TestWrongTokens(t *testing.T) {
	w := newWorld(t, &identity.Memory{})
	w.add("ann", "")
	_, text := w.token("ann", policy.Narrowing{})
	for i := range text {
		other := "A"
		if text[i] == 'A' {
			other = "B"
		}
		_, err := w.Token(t.Context(), w.set, text[:i]+other+text[i+1:])
		typed(t, "auth/unauthorized", err)
	}
	for _, bad := range []string{"", "fmt_", text[:len(text)-1], text + "A", strings.ToUpper(text)} {
		_, err := w.Token(t.Context(), w.set, bad)
		typed(t, "auth/unauthorized", err)
		assert.NotContains(t, err.Message+err.Hint, text[:len(text)-6])
	}
}

// AUTH-003: what a token may be is checked when it is made.
func TestNewTokens(t *testing.T) {
	w := newWorld(t, &identity.Memory{})
	w.add("ann", "")
	w.set.Intents = []string{"text/render"}
	for name, row := range map[string]struct {
		n   identity.NewToken
		typ string
	}{
		"too long":          {identity.NewToken{Owner: "ann", TTL: 366 * 24 * time.Hour}, "invalid-request"},
		"negative":          {identity.NewToken{Owner: "ann", TTL: -1}, "invalid-request"},
		"unknown owner":     {identity.NewToken{Owner: "an"}, "user/not-found"},
		"unknown role":      {identity.NewToken{Owner: "ann", Narrow: policy.Narrowing{Roles: []string{"role/x"}}}, "user/unknown-role"},
		"unknown intent":    {identity.NewToken{Owner: "ann", Narrow: policy.Narrowing{Intents: []string{"text/rendr"}}}, "invalid-request"},
		"unknown operation": {identity.NewToken{Owner: "ann", Narrow: policy.Narrowing{Operations: []string{"http.v1/acts"}}}, "invalid-request"},
		"unknown space":     {identity.NewToken{Owner: "ann", Narrow: policy.Narrowing{Operations: []string{"http.v2/*"}}}, "invalid-request"},
	} {
		_, text, err := w.AddToken(t.Context(), w.set, row.n)
		typed(t, row.typ, err)
		assert.Empty(t, text, name)
	}
	all, err := w.Tokens(t.Context(), "")
	require.Nil(t, err)
	assert.Empty(t, all)
}

// AUTH-020: failed logins lock the pair of account and network, before any password
// is looked at, alike for accounts that do not exist. Strong account types have their
// own limit; other networks still get in; a counter loses one failure per minute.
func TestFailedLoginsLock(t *testing.T) {
	for login, most := range map[string]int{"ann": 10, "robot": 8, "nothing": 10} {
		t.Run(login, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, &identity.Memory{})
				w.add("ann", "")
				w.add("robot", "system")
				window := w.set.Locks.Window
				if login == "robot" {
					window = w.set.Locks.StrongWindow
				}
				fail := func(network string) *contract.Error {
					_, err := w.login(login, "wrong password", network)
					require.NotNil(t, err)
					return err
				}
				for range most - 2 {
					typed(t, "auth/unauthorized", fail("near"))
				}
				time.Sleep(time.Minute) // forgives one, or two with the delays
				for range 2 {
					typed(t, "auth/unauthorized", fail("near"))
				}
				n := 0
				for fail("near").Type == "auth/unauthorized" {
					n++
					require.Less(t, n, 4, "it locks in the end")
				}
				assert.Positive(t, n, "one failure was forgiven")
				refused := fail("near")
				typed(t, "auth/locked", refused)
				assert.True(t, refused.Details.HasKey("retry-after-ms"))
				_, err := w.login(login, password, "near")
				typed(t, "auth/locked", err)
				if login != "nothing" {
					_, err = w.login(login, password, "far")
					require.Nil(t, err, "an account is not locked for all")
				}
				time.Sleep(window)
				if login != "nothing" {
					_, err = w.login(login, password, "near")
					require.Nil(t, err)
				}
			})
		})
	}
}

// AUTH-020: failures from any network delay the next login to the account, up to a
// limit, and an administrator ends that.
func TestFailedLoginsDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &identity.Memory{})
		w.add("ann", "")
		took := func(password, network string) time.Duration {
			begun := time.Now()
			_, _ = w.login("ann", password, network)
			return time.Since(begun)
		}
		assert.Zero(t, took("wrong password", "n0"))
		before := time.Duration(0)
		for i := range 6 {
			now := took("wrong password", fmt.Sprint("n", i+1))
			assert.Greater(t, now, before)
			before = now
		}
		for i := range 9 {
			assert.LessOrEqual(t, took("wrong password", fmt.Sprint("m", i)), 2*time.Second)
		}
		assert.Equal(t, 2*time.Second, took("wrong password", "last"))
		_, err := w.Forgive(t.Context(), "ann")
		require.Nil(t, err)
		assert.Zero(t, took(password, "n0"))
	})
}

// AUTH-002: more logins than may wait at once are refused.
func TestBusyLogins(t *testing.T) {
	w := newWorld(t, &identity.Memory{})
	w.set.Basic.Memory, w.set.Basic.Time = 16<<10, 2
	w.set.Locks.Max = 1000
	w.add("ann", "")
	var wait sync.WaitGroup
	var busy, admitted atomic.Int32
	for i := range 150 {
		wait.Go(func() {
			switch _, err := w.login("ann", password, fmt.Sprint(i)); {
			case err == nil:
				admitted.Add(1)
			case err.Type == "auth/busy":
				busy.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wait.Wait()
	assert.Positive(t, admitted.Load())
	assert.Positive(t, busy.Load())
	assert.EqualValues(t, 150, admitted.Load()+busy.Load())
}

// The actions of administrators: their errors, and that the last administrator stays.
func TestAdministration(t *testing.T) {
	w := newWorld(t, &identity.Memory{})
	ctx := t.Context()
	require.True(t, w.Empty())
	first := w.add("root", "", policy.RoleAdmin)
	assert.False(t, w.Empty())
	_, err := w.AddUser(ctx, w.set, identity.NewUser{Login: "root"})
	typed(t, "user/already-exists", err)
	for _, login := range []string{"", "Ann", "a b", "-a", strings.Repeat("a", 65), "user/1"} {
		_, err := w.AddUser(ctx, w.set, identity.NewUser{Login: login})
		typed(t, "invalid-request", err)
	}
	_, err = w.AddUser(ctx, w.set, identity.NewUser{Login: "ann", Type: "robot"})
	typed(t, "invalid-request", err)
	_, err = w.AddUser(ctx, w.set, identity.NewUser{Login: "ann", Roles: []string{"role/nope"}})
	typed(t, "user/unknown-role", err)
	_, err = w.AddUser(ctx, w.set, identity.NewUser{Login: "ann", Roles: []string{policy.RoleAnonymous}})
	typed(t, "user/invalid-role", err)

	for name, do := range map[string]func() *contract.Error{
		"lock":   func() *contract.Error { _, err := w.Lock(ctx, w.set, "root", true, false); return err },
		"revoke": func() *contract.Error { _, err := w.Revoke(ctx, w.set, "root", policy.RoleAdmin, false); return err },
		"delete": func() *contract.Error { _, _, err := w.DeleteUser(ctx, w.set, first.ID, true); return err },
	} {
		err := do()
		typed(t, "user/last-admin", err)
		assert.NotEmpty(t, err.Hint, name)
	}
	second := w.add("ann", "", policy.RoleAdmin)
	_, _ = w.token("ann", policy.Narrowing{})
	_, err = w.Revoke(ctx, w.set, "root", policy.RoleAdmin, true)
	require.Nil(t, err, "another one is there")
	u, tokens, err := w.DeleteUser(ctx, w.set, "ann", false)
	require.Nil(t, err)
	assert.Equal(t, []any{second.ID, 1}, []any{u.ID, tokens})
	left, _ := w.Tokens(ctx, "")
	assert.Empty(t, left)
	third := w.add("ann", "")
	assert.NotEqual(t, second.ID, third.ID, "an id is never used again: it is the owner of runs")
	_, err = w.User(ctx, "anna")
	typed(t, "user/not-found", err)
	assert.Contains(t, err.Hint, "ann")
}

// shared is a store that two hosts have.
type shared struct {
	identity.Memory
	fails atomic.Bool
	reads atomic.Int32
}

func (s *shared) Shared() bool { return true }

func (s *shared) Version(ctx context.Context) (int64, error) {
	s.reads.Add(1)
	if s.fails.Load() {
		return 0, errors.New("no connection")
	}
	return s.Memory.Version(ctx)
}

// AUTH-003: a token that one host revokes is refused by another within a second; a
// host that cannot look refuses instead of believing what it knows.
func TestRevokedByAnotherHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &shared{}
		here, there := newWorld(t, store), newWorld(t, store)
		here.add("ann", "")
		tok, text := here.token("ann", policy.Narrowing{})
		time.Sleep(500 * time.Millisecond)
		p, err := there.Token(t.Context(), there.set, text)
		require.Nil(t, err, "a new token is known as fast")
		before := store.reads.Load()
		for range 100 {
			_, err = there.Token(t.Context(), there.set, text)
			require.Nil(t, err)
		}
		assert.Equal(t, before, store.reads.Load(), "the database is not asked each time")
		_, err = here.RevokeToken(t.Context(), tok.ID, false)
		require.Nil(t, err)
		_, err = here.Token(t.Context(), here.set, text)
		typed(t, "auth/unauthorized", err)
		time.Sleep(time.Second)
		_, err = there.Token(t.Context(), there.set, text)
		typed(t, "auth/unauthorized", err)
		assert.False(t, there.Holds(t.Context(), &p))

		_, other := here.token("ann", policy.Narrowing{})
		time.Sleep(time.Second)
		store.fails.Store(true)
		_, err = there.Token(t.Context(), there.set, other)
		typed(t, "auth/busy", err)
	})
}

// Race: tokens are revoked while others are used.
func TestRevokeDuringCalls(t *testing.T) {
	w := newWorld(t, &identity.Memory{})
	w.add("ann", "")
	var wait sync.WaitGroup
	for range 20 {
		tok, text := w.token("ann", policy.Narrowing{})
		var gone atomic.Bool
		wait.Go(func() {
			for {
				revoked := gone.Load()
				_, err := w.Token(t.Context(), w.set, text)
				if revoked {
					assert.NotNil(t, err, "a use after the revocation")
					return
				}
			}
		})
		wait.Go(func() {
			_, err := w.RevokeToken(t.Context(), tok.ID, false)
			assert.Nil(t, err)
			gone.Store(true)
		})
	}
	wait.Wait()
}

// FuzzTokenText: no text is admitted but that of the token, and none panics.
func FuzzTokenText(f *testing.F) {
	w := newWorld(f, &identity.Memory{})
	w.add("ann", "")
	_, text := w.token("ann", policy.Narrowing{})
	f.Add(text)
	f.Add("fmt_abcdefgh_")
	f.Fuzz(func(t *testing.T, s string) {
		_, err := w.Token(t.Context(), w.set, s)
		if (err == nil) != (s == text) {
			t.Fatalf("%q: %v", s, err)
		}
	})
}

func BenchmarkToken(b *testing.B) {
	w := newWorld(b, &identity.Memory{})
	w.add("ann", "")
	_, text := w.token("ann", policy.Narrowing{})
	access := policy.ShippedAccess()
	b.ReportAllocs()
	for b.Loop() {
		p, err := w.Token(b.Context(), w.set, text)
		if err != nil || !access.Operation(policy.Act, p.Caller()).OK {
			b.Fatal(err)
		}
	}
}
