package store

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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
		want, err := s.Identity().Accounts(ctx)
		require.NoError(t, err)
		assert.EqualValues(t, 2, want.Version)
		require.NoError(t, s.Close())

		s = b.openAt(t, dir)
		got, err := s.Identity().Accounts(ctx)
		require.NoError(t, err)
		assert.Equal(t, want, got)
		after := accountsOf(t, s)
		p, refused := after.Token(ctx, &identitySettings, text)
		require.Nil(t, refused)
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
}

// JRN-030: a repair keeps users and tokens whose tables can be read. If it has to read
// single pages it keeps none: a free page may have a token that was revoked.
func TestRepairOfAccounts(t *testing.T) {
	for _, page := range []bool{false, true} {
		dir := filled(t)
		s := openAt(t, dir)
		_, text := addAnn(t, accountsOf(t, s))
		require.NoError(t, s.Close())
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
