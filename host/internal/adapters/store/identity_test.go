package store

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/sdk/contract"
)

var identitySettings = identity.Settings{
	Known:       policy.BuiltinRoles(),
	LoggedIn:    policy.RoleUser,
	Basic:       identity.Basic{MinBytes: 12, Memory: 64, Time: 1},
	TokenTTL:    time.Hour,
	MaxTokenTTL: 24 * time.Hour,
	Locks:       identity.Locks{Max: 10, Window: time.Minute, Forgive: time.Minute},
}

func accountsOf(t testing.TB, s *Store) *identity.Service {
	t.Helper()
	out, err := identity.Open(context.Background(), s.Identity())
	require.NoError(t, err)
	return out
}

const secretOfAnn = "three small words"

// addAnn adds a user and a token of it with limits.
func addAnn(t testing.TB, on *identity.Service) (identity.User, string) {
	t.Helper()
	u, err := on.AddUser(context.Background(), &identitySettings, identity.NewUser{Login: "ann", Password: secretOfAnn, Roles: []string{policy.RoleAdmin}})
	require.Nil(t, err)
	_, text, err := on.AddToken(context.Background(), &identitySettings, identity.NewToken{Owner: "ann", Label: "of \"a\" host", Narrow: policy.Narrowing{Operations: []string{policy.Act}, Intents: []string{}}})
	require.Nil(t, err)
	return u, text
}

// AUTH-002, AUTH-003: users and tokens are there after the store was opened again,
// each change of one as a whole, and neither passwords nor tokens are in the files.
func TestAccountsLast(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		ctx, dir := context.Background(), t.TempDir()
		s := b.openAt(t, dir)
		before := accountsOf(t, s)
		u, text := addAnn(t, before)
		_, refused := before.CreateRole(ctx, &identitySettings, identity.Role{Name: "role/night", Doc: "with 'quotes'", Includes: []string{policy.RoleOperator}})
		require.Nil(t, refused)
		_, refused = before.AddUser(ctx, &identitySettings, identity.NewUser{Login: "bob", Tenant: "lab", Roles: []string{"role/night"}})
		require.Nil(t, refused)
		want, err := s.Identity().Accounts(ctx)
		require.NoError(t, err)
		assert.EqualValues(t, 4, want.Version)
		assert.Equal(t, "lab", want.Users[slices.IndexFunc(want.Users, func(u identity.User) bool { return u.Login == "bob" })].Tenant)
		assert.Equal(t, []string{policy.RoleOperator}, want.Roles[0].Includes)
		require.NoError(t, s.Close())

		s = b.openAt(t, dir)
		got, err := s.Identity().Accounts(ctx)
		require.NoError(t, err)
		assert.Equal(t, want, got)
		after := accountsOf(t, s)
		p, refused := after.Token(ctx, &identitySettings, text)
		require.Nil(t, refused)
		_, refused = after.DeleteRole(ctx, &identitySettings, "role/night", false)
		typed(t, refused, "role/in-use")
		assert.Equal(t, u.ID, p.Name)
		assert.Equal(t, &policy.Narrowing{Operations: []string{policy.Act}, Intents: []string{}}, p.Narrow)
		_, refused = after.Password(ctx, &identitySettings, identity.Login{Name: "ann", Password: secretOfAnn})
		require.Nil(t, refused)
		_, refused = after.Lock(ctx, &identitySettings, "ann", true, false)
		typed(t, refused, "user/last-admin")
		_, _, refused = after.DeleteUser(ctx, &identitySettings, "ann", true)
		typed(t, refused, "user/last-admin")
		require.NoError(t, s.Close())
		if b.driver == "sqlite" {
			assert.Empty(t, filesWith(t, dir, secretOfAnn), "the password")
			assert.Empty(t, filesWith(t, dir, text), "the token")
		}
	})
}

// filesWith returns the files below a directory that contain a text.
func filesWith(t testing.TB, dir, text string) (found []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(text)) {
			found = append(found, path)
		}
		return err
	}))
	return found
}

// AUTH-004: the token of a session lasts over a restart and is kept as a hash only; its
// use extends it, another one replaces it, and it ends with the token that made it.
func TestSessionTokensLast(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		ctx, dir := context.Background(), t.TempDir()
		set := identitySettings
		set.Sessions = identity.SessionTokens{Operations: []string{policy.Act}, IdleTTL: time.Hour, Refresh: time.Millisecond}
		s := b.openAt(t, dir)
		on := accountsOf(t, s)
		_, maker := addAnn(t, on)
		p, refused := on.Token(ctx, &set, maker)
		require.Nil(t, refused)
		first, _, refused := on.OpenSession(ctx, &set, &p, "s-1")
		require.Nil(t, refused)
		text, until, refused := on.OpenSession(ctx, &set, &p, "s-1")
		require.Nil(t, refused)
		require.NoError(t, s.Close())
		if b.driver == "sqlite" {
			assert.Empty(t, filesWith(t, dir, text))
		}

		s = b.openAt(t, dir)
		on = accountsOf(t, s)
		_, refused = on.SessionToken(ctx, &set, first)
		typed(t, refused, "auth/unauthorized")
		got, refused := on.SessionToken(ctx, &set, text)
		require.Nil(t, refused)
		assert.Equal(t, []string{p.Name, "s-1"}, []string{got.Name, got.Session})
		a, err := s.Identity().Accounts(ctx)
		require.NoError(t, err)
		require.Len(t, a.Tokens, 2)
		for _, x := range a.Tokens {
			if x.ID == got.Token {
				assert.Equal(t, p.Token, x.Parent)
				assert.True(t, x.Expires.After(until), "its use has extended it")
			}
		}
		_, refused = on.RevokeToken(ctx, p.Token, false)
		require.Nil(t, refused)
		_, refused = on.SessionToken(ctx, &set, text)
		typed(t, refused, "auth/unauthorized")
		require.NoError(t, s.Close())
	})
}

// An update that is refused writes nothing, and one that changes nothing makes no
// version.
func TestRefusedAccountUpdates(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		ctx := context.Background()
		x := b.openAt(t, t.TempDir()).Identity()
		no := contract.Errorf("user/not-found", "no")
		err := x.Update(ctx, func(identity.Accounts) (identity.Change, error) {
			return identity.Change{Put: []identity.User{{ID: "user/1", Login: "ann"}}}, no
		})
		assert.True(t, errors.Is(err, no), "%v", err)
		require.NoError(t, x.Update(ctx, func(identity.Accounts) (identity.Change, error) { return identity.Change{}, nil }))
		a, err := x.Accounts(ctx)
		require.NoError(t, err)
		assert.Zero(t, a)
	})
}

// AUTH-003: many changes at once lose nothing, from two hosts where they can share the
// database; each host then sees those of the other.
func TestAccountsAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		const each = 10
		ctx, dir := context.Background(), t.TempDir()
		stores := []*Store{b.openAt(t, dir)}
		if b.driver != "sqlite" {
			stores = append(stores, b.openAt(t, dir, func(o *Options) { o.Postgres.Host = "other" }))
		}
		hosts := make([]*identity.Service, len(stores))
		for i, s := range stores {
			hosts[i] = accountsOf(t, s)
			assert.Equal(t, len(stores) > 1, s.Identity().Shared())
		}
		addAnn(t, hosts[0])
		var wait sync.WaitGroup
		for _, h := range hosts {
			for range 4 {
				wait.Go(func() {
					for range each {
						_, _, err := h.AddToken(ctx, &identitySettings, identity.NewToken{Owner: "ann"})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		wait.Wait()
		a, err := stores[0].Identity().Accounts(ctx)
		require.NoError(t, err)
		assert.Len(t, a.Tokens, 1+4*each*len(stores))
		assert.EqualValues(t, 2+4*each*len(stores), a.Version)
	})
}

// OPS-007: a database of an older version gets the tables and keeps its runs; the way
// back loses users, which must be allowed.
func TestMigrateToIdentity(t *testing.T) {
	dir := filled(t)
	path := filepath.Join(dir, "ferment.db")
	migrate(t, Options{Path: path}, 6, true)
	s := openAt(t, dir)
	addAnn(t, accountsOf(t, s))
	runs, err := s.Runs(context.Background(), Filter{})
	require.NoError(t, err)
	assert.Len(t, runs, 3)
	require.NoError(t, s.Close())
	var loss *LossError
	require.ErrorAs(t, migrated(Options{Path: path}, 6, false), &loss)

	// Tokens for programs stay on the way back to a schema without other kinds.
	s = openAt(t, dir)
	on := accountsOf(t, s)
	set := identitySettings
	set.BrowserTTL = time.Hour
	p, refused := on.Password(context.Background(), &set, identity.Login{Name: "ann", Password: secretOfAnn})
	require.Nil(t, refused)
	_, _, refused = on.LogIn(context.Background(), &set, &p)
	require.Nil(t, refused)
	require.NoError(t, s.Close())
	migrate(t, Options{Path: path}, 7, true)
	s = openAt(t, dir)
	a, err := s.Identity().Accounts(context.Background())
	require.NoError(t, err)
	assert.Len(t, a.Users, 1)
	require.Len(t, a.Tokens, 1)
	assert.Equal(t, identity.ForPrograms, a.Tokens[0].Kind)
	require.NoError(t, s.Close())
}

// OPS-007, AUTH-012: users of tenants are locked on the way back to a schema without
// tenants, where they would be users of the host.
func TestMigrateLocksUsersOfTenants(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		ctx, dir := context.Background(), t.TempDir()
		s := b.openAt(t, dir)
		on := accountsOf(t, s)
		for login, tenant := range map[string]string{"ann": "acme", "bob": ""} {
			_, err := on.AddUser(ctx, &identitySettings, identity.NewUser{Login: login, Tenant: tenant, Roles: []string{policy.RoleAdmin}})
			require.Nil(t, err)
		}
		require.NoError(t, s.Close())
		migrate(t, b.options(t, dir), 10, true)
		s = b.openAt(t, dir)
		a, err := s.Identity().Accounts(ctx)
		require.NoError(t, err)
		locked := map[string]bool{}
		for _, u := range a.Users {
			assert.Empty(t, u.Tenant)
			locked[u.Login] = u.Locked
		}
		assert.Equal(t, map[string]bool{"ann": true, "bob": false}, locked)
		require.NoError(t, s.Close())
	})
}

// JRN-030: a repair keeps users and tokens whose tables can be read. If it has to read
// single pages it keeps none: a free page may have a token that was revoked.
func TestRepairOfAccounts(t *testing.T) {
	for _, damage := range []string{"record", "record of an older schema", "page"} {
		page := damage == "page"
		dir := filled(t)
		s := openAt(t, dir)
		_, text := addAnn(t, accountsOf(t, s))
		require.NoError(t, s.Close())
		if damage == "record of an older schema" {
			migrate(t, Options{Path: filepath.Join(dir, "ferment.db")}, 7, true)
		}
		if page {
			zeroPage(t, dir, 0)
		} else {
			tamper(t, dir, "UPDATE records SET body = 'x' WHERE id = (3 << 32) | 6")
		}
		require.False(t, repair(t, dir, false).Sound())
		s = openAt(t, dir)
		after := accountsOf(t, s)
		assert.Equal(t, page, after.Empty())
		_, err := after.Token(context.Background(), &identitySettings, text)
		assert.Equal(t, page, err != nil)
		require.NoError(t, s.Close())
	}
}
