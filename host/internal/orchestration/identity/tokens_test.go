package identity_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
)

// counted is a store that counts its updates.
type counted struct {
	identity.Memory
	updates atomic.Int64
}

func (c *counted) Update(ctx context.Context, change func(identity.Accounts) (identity.Change, error)) error {
	c.updates.Add(1)
	return c.Memory.Update(ctx, change)
}

// AUTH-004: a session token that is not used ends after 30 minutes; its use extends
// that, and is written at most every 5 minutes, also by many requests at once.
func TestSessionTokenIdles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counted{}
		w := newWorld(t, store)
		w.set.Sessions = identity.SessionTokens{Operations: []string{policy.Act}, IdleTTL: 30 * time.Minute, Refresh: 5 * time.Minute}
		w.add("ann", "")
		p, err := w.login("ann", password, "")
		require.Nil(t, err)
		text, until, err := w.OpenSession(t.Context(), w.set, &p, "s-1")
		require.Nil(t, err)
		assert.Equal(t, 30*time.Minute, time.Until(until).Round(time.Second))
		try := func() bool {
			_, err := w.SessionToken(t.Context(), w.set, text)
			return err == nil
		}
		before := store.updates.Load()
		for range 60 {
			time.Sleep(time.Minute)
			require.True(t, try())
		}
		assert.EqualValues(t, 12, store.updates.Load()-before, "an hour has 12 refreshes")
		time.Sleep(6 * time.Minute)
		version, verr := store.Version(t.Context())
		require.NoError(t, verr)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { assert.True(t, try()) })
		}
		all.Wait()
		after, verr := store.Version(t.Context())
		require.NoError(t, verr)
		assert.EqualValues(t, 1, after-version, "one of them writes")
		time.Sleep(29 * time.Minute)
		assert.True(t, try())
		time.Sleep(31 * time.Minute)
		assert.False(t, try())
		listed, err := w.Tokens(t.Context(), "")
		require.Nil(t, err)
		require.Len(t, listed, 1)
		w.token("ann", policy.Narrowing{})
		listed, err = w.Tokens(t.Context(), "")
		require.Nil(t, err)
		assert.Len(t, listed, 1, "it is deleted with the next change")
	})
}

// AUTH-032: a login of a browser lasts as long as the configuration says, and a user has
// a bounded number of them.
func TestBrowserLoginsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &identity.Memory{})
		w.set.BrowserTTL = 12 * time.Hour
		w.add("ann", "")
		p, err := w.login("ann", password, "")
		require.Nil(t, err)
		var texts []string
		for range 40 {
			time.Sleep(time.Second)
			text, _, err := w.LogIn(t.Context(), w.set, &p)
			require.Nil(t, err)
			texts = append(texts, text)
		}
		valid := func(text string) bool {
			_, err := w.Browser(t.Context(), w.set, text)
			return err == nil
		}
		assert.Equal(t, 32, len(slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return !valid(text) })))
		assert.True(t, valid(texts[39]))
		assert.False(t, valid(texts[7]), "the oldest end first")
		time.Sleep(12*time.Hour - time.Minute)
		assert.True(t, valid(texts[39]))
		time.Sleep(2 * time.Minute)
		assert.False(t, valid(texts[39]))
	})
}

// AUTH-003, AUTH-004: for any limits of the credential that makes it and any operations
// of the configuration, a session token may do nothing that its maker may not, and
// nothing that the configuration does not list.
func TestSessionTokenNeverWidens(t *testing.T) {
	w := newWorld(t, &identity.Memory{})
	w.add("ann", "", policy.RoleOperator)
	access := policy.ShippedAccess()
	operations := policy.Operations()
	rapid.Check(t, func(r *rapid.T) {
		some := func(label string, of []string) []string {
			if rapid.Bool().Draw(r, label+"?") {
				return nil
			}
			return append([]string{}, rapid.SliceOfDistinct(rapid.SampledFrom(of), rapid.ID[string]).Draw(r, label)...)
		}
		narrow := policy.Narrowing{
			Roles:      some("roles", []string{policy.RoleUser, policy.RoleOperator, policy.RoleAdmin}),
			Operations: some("operations", append(slices.Clone(operations), "runs/*", "http.v1/*")),
			Intents:    some("intents", []string{"a/b", "a/*", "c/d"}),
		}
		w.set.Sessions = identity.SessionTokens{IdleTTL: time.Hour, Refresh: time.Minute,
			Operations: append(some("listed", operations), policy.ReadRuns)}
		_, maker := w.token("ann", narrow)
		p, err := w.Token(t.Context(), w.set, maker)
		require.Nil(t, err)
		text, _, err := w.OpenSession(t.Context(), w.set, &p, "s-1")
		require.Nil(t, err)
		got, err := w.SessionToken(t.Context(), w.set, text)
		require.Nil(t, err)
		for _, o := range operations {
			may := access.Operation(o, got.Caller()).OK
			want := access.Operation(o, p.Caller()).OK && slices.Contains(w.set.Sessions.Operations, o)
			assert.Equal(r, want, may, o)
		}
		for _, intent := range []string{"a/b", "a/x", "c/d"} {
			assert.Equal(r, access.Intent(intent, p.Caller()).OK, access.Intent(intent, got.Caller()).OK, intent)
		}
		again, _, err := w.OpenSession(t.Context(), w.set, &got, "s-1")
		require.Nil(t, err)
		rotated, err := w.SessionToken(t.Context(), w.set, again)
		require.Nil(t, err)
		assert.Equal(r, got.Narrow, rotated.Narrow, "a token that replaces it has the same limits")
	})
}
