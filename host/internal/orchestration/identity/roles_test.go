package identity_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/sdk/contract"
)

const night = "role/night"

func (w world) role(name string, includes ...string) (identity.Role, *contract.Error) {
	return w.CreateRole(w.t.Context(), w.set, identity.Role{Name: name, Includes: includes})
}

// HTTP-008, AUTH-006: a created role grants the roles that it includes, at once and for
// each credential; it can be deleted when neither a user nor a token has it.
func TestCreatedRoles(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t, &identity.Memory{})
	w.add("root", "", policy.RoleAdmin)
	w.add("ann", "")
	made, err := w.role(night, policy.RoleOperator, "role/auditor")
	require.Nil(t, err)
	assert.Equal(t, []string{"role/auditor", policy.RoleOperator}, made.Includes)
	_, err = w.Grant(ctx, w.set, "ann", night)
	require.Nil(t, err)
	p, err := w.login("ann", password, "n")
	require.Nil(t, err)
	assert.Equal(t, []string{"role/auditor", night, policy.RoleOperator, policy.RoleUser}, p.Roles)
	tok, text := w.token("ann", policy.Narrowing{Roles: []string{night}})
	q, err := w.Token(ctx, w.set, text)
	require.Nil(t, err)
	rule := policy.Rule{All: []string{policy.RoleOperator}}
	ok, why := rule.Permits(q.Caller())
	assert.True(t, ok, "a limit to the role is one to the roles that it includes: %s", why)
	rule = policy.Rule{Any: []string{policy.RoleUser}}
	ok, _ = rule.Permits(q.Caller())
	assert.False(t, ok)

	_, err = w.DeleteRole(ctx, w.set, night, false)
	typed(t, "role/in-use", err)
	assert.Equal(t, `{:tokens ["`+tok.ID+`"] :users ["ann"]}`, err.Details.String())
	_, err = w.Revoke(ctx, w.set, "ann", night, false)
	require.Nil(t, err)
	_, err = w.DeleteRole(ctx, w.set, night, false)
	typed(t, "role/in-use", err)
	assert.Equal(t, `[]`, err.Details.Key("users").String())
	_, err = w.RevokeToken(ctx, tok.ID, false)
	require.Nil(t, err)
	_, err = w.DeleteRole(ctx, w.set, night, true)
	require.Nil(t, err)
	all, err := w.Roles(ctx)
	require.Nil(t, err)
	assert.Len(t, all, 1, "a dry run deletes nothing")
	_, err = w.DeleteRole(ctx, w.set, night, false)
	require.Nil(t, err)
	_, err = w.Grant(ctx, w.set, "ann", night)
	typed(t, "user/unknown-role", err)
	assert.NotContains(t, err.Hint, policy.RoleAny, "it cannot be granted")
	_, _, err = w.AddToken(ctx, w.set, identity.NewToken{Owner: "ann", Narrow: policy.Narrowing{Roles: []string{night}}})
	typed(t, "user/unknown-role", err)
}

// HTTP-008: what cannot be created or deleted as a role.
func TestRoleErrors(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t, &identity.Memory{})
	_, err := w.role(night)
	require.Nil(t, err, "a role may include nothing")
	for name, tt := range map[string]struct {
		role     string
		includes []string
		want     string
	}{
		"of the configuration": {"role/auditor", nil, "role/in-use"},
		"built in":             {policy.RoleAdmin, nil, "role/in-use"},
		"every caller":         {policy.RoleAny, nil, "role/in-use"},
		"created already":      {night, nil, "role/in-use"},
		"upper case":           {"role/Night", nil, "role/invalid-role"},
		"another namespace":    {"team/night", nil, "role/invalid-role"},
		"empty":                {"", nil, "role/invalid-role"},
		"a created role":       {"role/b", []string{night}, "role/invalid-role"},
		"an unknown role":      {"role/b", []string{"role/nope"}, "user/unknown-role"},
		"the anonymous role":   {"role/b", []string{policy.RoleAnonymous}, "user/invalid-role"},
	} {
		_, err := w.role(tt.role, tt.includes...)
		require.NotNil(t, err, name)
		assert.Equal(t, tt.want, err.Type, name)
		if tt.role == policy.RoleAny {
			assert.NotContains(t, err.Hint, "grant", "it cannot be granted")
		}
	}
	_, err = w.DeleteRole(ctx, w.set, "role/nigth", false)
	typed(t, "role/not-found", err)
	assert.Contains(t, err.Hint+err.Details.String(), "night", "the nearest name")
	_, err = w.DeleteRole(ctx, w.set, "role/auditor", false)
	typed(t, "role/invalid-role", err)
}

// AUTH-006: a configuration that declares a created role is refused, and one that no
// longer has an included role takes it away.
func TestRolesAndConfiguration(t *testing.T) {
	w := newWorld(t, &identity.Memory{})
	_, err := w.role(night, "role/auditor")
	require.Nil(t, err)
	u := w.add("ann", "", night)
	assert.Nil(t, w.Clash(w.set))
	next := *w.set
	next.Known = append(slices.Clone(w.set.Known), night)
	typed(t, "config/duplicate", w.Clash(&next))
	next.Known = slices.DeleteFunc(slices.Clone(w.set.Known), func(r string) bool { return r == "role/auditor" })
	assert.Equal(t, []string{night, policy.RoleUser}, w.RolesOf(&next, &u))
}

// AUTH-031: the last administrator may be one by a created role, which therefore stays.
func TestLastAdminByCreatedRole(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t, &identity.Memory{})
	_, err := w.role(night, policy.RoleAdmin)
	require.Nil(t, err)
	w.add("ann", "", night)
	_, err = w.Revoke(ctx, w.set, "ann", night, false)
	typed(t, "user/last-admin", err)
	_, err = w.Lock(ctx, w.set, "ann", true, false)
	typed(t, "user/last-admin", err)
}

// AUTH-031, AUTH-012: an administrator with a tenant cannot administer the host, so the last
// one without a tenant stays.
func TestLastAdminIsOfTheHost(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t, &identity.Memory{})
	w.add("root", "", policy.RoleAdmin)
	_, err := w.AddUser(ctx, w.set, identity.NewUser{Login: "ann", Tenant: "acme", Roles: []string{policy.RoleAdmin}, Password: password})
	require.Nil(t, err)
	_, err = w.Lock(ctx, w.set, "root", true, false)
	typed(t, "user/last-admin", err)
	_, err = w.Revoke(ctx, w.set, "root", policy.RoleAdmin, false)
	typed(t, "user/last-admin", err)
	_, _, err = w.DeleteUser(ctx, w.set, "root", false)
	typed(t, "user/last-admin", err)
	_, _, err = w.DeleteUser(ctx, w.set, "ann", false)
	require.Nil(t, err)
}

// AUTH-010: a role cannot be created while users or tokens have its name from a
// configuration that declared it: they would get what it includes.
func TestOldGrantsDoNotRevive(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t, &identity.Memory{})
	w.set.Known = append(slices.Clone(w.set.Known), night)
	w.add("root", "", policy.RoleAdmin)
	w.add("ann", "", night)
	tok, _ := w.token("root", policy.Narrowing{Roles: []string{night}})
	w.set.Known = slices.DeleteFunc(w.set.Known, func(r string) bool { return r == night })
	_, err := w.role(night, policy.RoleAdmin)
	typed(t, "role/in-use", err)
	assert.Equal(t, `{:tokens ["`+tok.ID+`"] :users ["ann"]}`, err.Details.String())
	_, err = w.Revoke(ctx, w.set, "ann", night, false)
	require.Nil(t, err)
	_, err = w.role(night, policy.RoleAdmin)
	typed(t, "role/in-use", err)
	_, err = w.RevokeToken(ctx, tok.ID, false)
	require.Nil(t, err)
	_, err = w.role(night, policy.RoleAdmin)
	require.Nil(t, err)
}

// AUTH-010: created roles give exactly the rights of the roles that they include: no
// sequence of grants gives a role that is neither granted nor included.
func TestCreatedRolesAddOnlyWhatTheyInclude(t *testing.T) {
	names := []string{"role/a", "role/b", "role/c"}
	plain := []string{policy.RoleAdmin, "role/auditor", "role/machine", policy.RoleOperator}
	rapid.Check(t, func(t *rapid.T) {
		a := identity.Accounts{}
		for _, name := range names {
			a.Roles = append(a.Roles, identity.Role{Name: name, Includes: rapid.SliceOfDistinct(rapid.SampledFrom(plain), rapid.ID).Draw(t, name)})
		}
		u := identity.User{Type: identity.SimpleType, Roles: rapid.SliceOfDistinct(rapid.SampledFrom(append(slices.Clone(names), plain...)), rapid.ID).Draw(t, "roles")}
		want := map[string]bool{policy.RoleUser: true}
		for _, role := range u.Roles {
			want[role] = true
			for _, r := range a.Roles {
				for _, included := range r.Includes {
					want[included] = want[included] || r.Name == role
				}
			}
		}
		got := a.RolesOf(settings(), &u)
		for role, has := range want {
			if has != slices.Contains(got, role) {
				t.Fatalf("%s: %v, roles %v", role, has, got)
			}
		}
		for _, role := range got {
			if !want[role] {
				t.Fatalf("%s is too much in %v", role, got)
			}
		}
	})
}

// The tenant of a user is set when it is created, and a caller has it by each credential.
func TestTenantOfUsers(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t, &identity.Memory{})
	for _, bad := range []string{"host", "Lab", "a b", "-a", "a/b"} {
		_, err := w.AddUser(ctx, w.set, identity.NewUser{Login: "x", Tenant: bad})
		typed(t, "invalid-request", err)
	}
	_, err := w.AddUser(ctx, w.set, identity.NewUser{Login: "ann", Tenant: "lab", Password: password})
	require.Nil(t, err)
	p, err := w.login("ann", password, "n")
	require.Nil(t, err)
	_, text := w.token("ann", policy.Narrowing{})
	q, err := w.Token(ctx, w.set, text)
	require.Nil(t, err)
	assert.Equal(t, []string{"lab", "lab"}, []string{p.Tenant, q.Tenant})
}
