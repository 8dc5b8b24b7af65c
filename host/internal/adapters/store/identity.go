package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Identity keeps users, tokens and created roles in the database of a Store, whose writer executes
// all updates.
type Identity struct{ s *Store }

var _ identity.Store = Identity{}

// Identity returns the users and tokens of the store.
func (s *Store) Identity() Identity { return Identity{s} }

// Shared implements identity.Store.
func (x Identity) Shared() bool { return x.s.shared != nil }

// Version implements identity.Store.
func (x Identity) Version(ctx context.Context) (version int64, err error) {
	err = x.s.read.one(ctx, "accounts_version", nil, []any{&version})
	return version, err
}

// Accounts implements identity.Store. The version is read before the accounts, so a change during
// the read has a higher version and causes another read.
func (x Identity) Accounts(ctx context.Context) (identity.Accounts, error) {
	return readAccounts(ctx, x.s.read, accountsSchema{})
}

// accountsSchema selects the statements for the tables of a schema. The zero value is the
// current one.
type accountsSchema struct{ users, tokens string }

// readAccounts reads accounts with the statements of a schema.
func readAccounts(ctx context.Context, from *statements, schema accountsSchema) (a identity.Accounts, err error) {
	if err := from.one(ctx, "accounts_version", nil, []any{&a.Version}); err != nil {
		return a, err
	}
	var u identity.User
	var roles string
	var locked int64
	row := []any{&u.ID, &u.Login, &u.Type, &roles, &u.Password, &locked, moment{&u.Created}, &u.Changed, &u.Tenant}
	err = from.all(ctx, "users"+schema.users, nil, row, func() (err error) {
		u.Locked = locked != 0
		if u.Roles, err = keywordsIn(roles); err != nil {
			return &Damage{What: fmt.Sprintf("user %s has the roles %.80q", u.ID, roles)}
		}
		a.Users = append(a.Users, u)
		return nil
	})
	if err != nil {
		return a, err
	}
	var t identity.Token
	var hash []byte
	var narrow string
	var kind string
	row = []any{&t.ID, &t.Owner, &t.Label, &hash, &narrow, moment{&t.Created}, moment{&t.Expires}, &kind, &t.Session, &t.Parent}
	err = from.all(ctx, "tokens"+schema.tokens, nil, row, func() error {
		limits, err := edn.Read([]byte(narrow), storedLimits)
		if err != nil || !limits.IsMap() || len(hash) != len(t.Hash) {
			return &Damage{What: fmt.Sprintf("token %s cannot be read", t.ID)}
		}
		t.Kind, t.Narrow, t.Hash = identity.TokenKind(kind), *policy.ReadNarrowing(limits), [32]byte(hash)
		a.Tokens = append(a.Tokens, t)
		return nil
	})
	if err != nil || schema.users != "" {
		return a, err // a schema without tenants has no created roles
	}
	var r identity.Role
	var includes string
	err = from.all(ctx, "created_roles", nil, []any{&r.Name, &r.Doc, &includes, moment{&r.Created}}, func() (err error) {
		if r.Includes, err = keywordsIn(includes); err != nil {
			return &Damage{What: fmt.Sprintf("role %s includes %.80q", r.Name, includes)}
		}
		a.Roles = append(a.Roles, r)
		return nil
	})
	return a, err
}

// keywordsIn parses an EDN set of keywords and returns their names in the order of the set. Members
// that are not keywords are ignored.
func keywordsIn(text string) (names []string, err error) {
	set, err := edn.Read([]byte(text), storedLimits)
	if err != nil {
		return nil, err
	}
	for member := range set.Elems() {
		if name, ok := member.AsKeyword(); ok {
			names = append(names, name)
		}
	}
	return names, nil
}

// Update implements identity.Store.
func (x Identity) Update(ctx context.Context, change func(identity.Accounts) (identity.Change, error)) error {
	return x.s.change(ctx, func(ctx context.Context) error {
		a, err := readAccounts(ctx, x.s.write, accountsSchema{})
		if err != nil {
			return err
		}
		c, err := change(a)
		if err != nil || c.Empty() {
			return err
		}
		return writeAccounts(ctx, x.s.write, c)
	})
}

func writeAccounts(ctx context.Context, to *statements, c identity.Change) error {
	var errs []error
	exec := func(name string, args ...any) {
		_, err := to.exec(ctx, name, args...)
		errs = append(errs, err)
	}
	for _, id := range c.Drop {
		exec("remove_user", id)
	}
	for _, id := range c.DropToken {
		exec("remove_token", id)
	}
	for _, u := range c.Put {
		locked := int64(0)
		if u.Locked {
			locked = 1
		}
		exec("set_user", u.ID, u.Login, u.Type, edn.Keywords(u.Roles...).String(), u.Password, locked, nanos(u.Created), u.Changed, u.Tenant)
	}
	for _, t := range c.PutToken {
		exec("set_token", t.ID, t.Owner, t.Label, t.Hash[:], t.Narrow.Value().String(), nanos(t.Created), nanos(t.Expires),
			string(t.Kind), t.Session, t.Parent)
	}
	for _, name := range c.DropRole {
		exec("remove_role", name)
	}
	for _, r := range c.PutRole {
		exec("add_role", r.Name, r.Doc, edn.Keywords(r.Includes...).String(), nanos(r.Created))
	}
	exec("grow_accounts")
	return errors.Join(errs...)
}

// copyAccounts copies users and tokens only if both tables can be read completely. Incomplete data
// is unsafe: an account that lost its lock would be usable, and a free page may hold a revoked
// token.
func (r *repairer) copyAccounts(ctx context.Context) error {
	var there int
	if err := r.src.read.one(ctx, "identity_table", nil, []any{&there}); err != nil || there == 0 {
		return err
	}
	var kinds, tenants int
	if err := r.src.read.one(ctx, "identity_columns", nil, []any{&kinds, &tenants}); err != nil {
		return err
	}
	var schema accountsSchema // older versions lack some columns
	if kinds == 0 {
		schema.tokens = "_without_kinds"
	}
	if tenants == 0 {
		schema.users = "_without_tenants"
	}
	a, err := readAccounts(ctx, r.src.read, schema)
	var damage *Damage
	if errors.As(err, &damage) || len(a.Users) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if err := writeAccounts(ctx, r.dst.write, identity.Change{Put: a.Users, PutToken: a.Tokens, PutRole: a.Roles}); err != nil {
		return err
	}
	_, err = r.dst.write.exec(ctx, "set_accounts_version", a.Version+1)
	return err
}
