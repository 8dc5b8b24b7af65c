package httpapi

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// identityCall is one action on users and tokens.
type identityCall struct {
	*identity.Service
	set *identity.Settings
	in  edn.Value
}

func (c identityCall) user() string { return text(c.in, "user") }
func (c identityCall) role() string { return fullRole(keyOf(c.in.Key("role"))) }
func (c identityCall) dry() bool    { return c.in.Key("dry-run?").Truthy() }

// fullRole returns the qualified name of a role, which may be given without its
// namespace.
func fullRole(name string) string {
	if name == "" || strings.Contains(name, "/") {
		return name
	}
	return "role/" + name
}

const (
	userEntry     = `[:user {:doc "login or id of a user"} [:string {:min 1 :max 64}]]`
	passwordEntry = `[:string {:min 1 :max 4096}]`
	roleEntry     = `[:role {:doc "with or without the namespace role"} [:or :keyword [:string {:min 1 :max 128}]]]`
	dryEntry      = ` [:dry-run? {:optional true :doc "only return what would be done"} :boolean]`
	namesEntry    = `[:set [:or :keyword [:string {:min 1 :max 128}]]]`
)

// identityActions returns the admin actions on users, roles and tokens.
func identityActions() []Action {
	grants := []string{"set-password", "unlock-user", "grant-role"}
	onUser := func(name, doc, more string, do func(context.Context, identityCall) (identity.User, *contract.Error)) Action {
		return Action{Name: name, Doc: doc, Input: userEntry + more, Grants: slices.Contains(grants, name), Reads: name == "show-user",
			onIdentity: func(ctx context.Context, c identityCall) (edn.Value, *contract.Error) {
				u, err := do(ctx, c)
				if err != nil {
					return edn.Nil(), err
				}
				return c.userValue(u, c.dry()), nil
			}}
	}
	return []Action{
		{Name: "list-users", Reads: true, Doc: "all users with their roles", onIdentity: listUsers},
		onUser("show-user", "one user", "", func(ctx context.Context, c identityCall) (identity.User, *contract.Error) {
			return c.User(ctx, c.user())
		}),
		{Name: "create-user", Doc: "create a user; without a password it can only have tokens",
			Input: `[:user {:doc "login: a-z 0-9 . _ @ + -"} [:string {:min 1 :max 64}]] [:type {:optional true :doc "of the account; default: simple"} [:string {:min 1 :max 64}]]
				[:tenant {:optional true :doc "whose budget and runs the user shares; default: the host itself"} [:string {:min 1 :max 64}]]
				[:roles {:optional true} ` + namesEntry + `] [:password {:optional true} ` + passwordEntry + `]`,
			onIdentity: createUser, Grants: true, Made: "user/id"},
		onUser("set-password", "change the password of a user", " [:password "+passwordEntry+"]",
			func(ctx context.Context, c identityCall) (identity.User, *contract.Error) {
				return c.SetPassword(ctx, c.set, c.user(), text(c.in, "password"))
			}),
		onUser("lock-user", "lock an account with its tokens, until it is unlocked", dryEntry,
			func(ctx context.Context, c identityCall) (identity.User, *contract.Error) {
				return c.Lock(ctx, c.set, c.user(), true, c.dry())
			}),
		onUser("unlock-user", "unlock an account and its tokens", "",
			func(ctx context.Context, c identityCall) (identity.User, *contract.Error) {
				return c.Lock(ctx, c.set, c.user(), false, false)
			}),
		onUser("reset-login-attempts", "forget the failed logins of an account on this host", "",
			func(ctx context.Context, c identityCall) (identity.User, *contract.Error) {
				return c.Forgive(ctx, c.user())
			}),
		onUser("grant-role", "give a user a role", " "+roleEntry,
			func(ctx context.Context, c identityCall) (identity.User, *contract.Error) {
				return c.Grant(ctx, c.set, c.user(), c.role())
			}),
		onUser("revoke-role", "take a role from a user", " "+roleEntry+dryEntry,
			func(ctx context.Context, c identityCall) (identity.User, *contract.Error) {
				return c.Revoke(ctx, c.set, c.user(), c.role(), c.dry())
			}),
		{Name: "delete-user", Doc: "delete a user with its tokens", Input: userEntry + dryEntry, Made: "user/id",
			onIdentity: func(ctx context.Context, c identityCall) (edn.Value, *contract.Error) {
				u, tokens, err := c.DeleteUser(ctx, c.set, c.user(), c.dry())
				if err != nil {
					return edn.Nil(), err
				}
				return c.userValue(u, c.dry()).AssocKey("tokens", edn.Int(int64(tokens))), nil
			}},
		{Name: "list-roles", Reads: true, Doc: "the roles of the configuration and the created ones, and who has them", onIdentity: listRoles},
		{Name: "list-known-roles", Reads: true, Doc: "the roles that can be granted, where they come from, and what the created ones include", onIdentity: listKnownRoles},
		{Name: "create-role", Doc: "create a role, which is kept with the users; who has it also has the roles that it includes",
			Input:      roleEntry + ` [:includes {:optional true :doc "roles of the configuration"} ` + namesEntry + `] [:doc {:optional true} [:string {:max 200}]]`,
			onIdentity: createRole, Grants: true},
		{Name: "delete-role", Doc: "delete a created role that no user and no token has", Input: roleEntry + dryEntry, onIdentity: deleteRole},
		{Name: "token-create", Doc: "create a token of a user; its text is in this response and nowhere else",
			Input: userEntry + ` [:label {:optional true} [:string {:min 1 :max 128}]] [:ttl-ms {:optional true} [:int {:min 1000}]]
				[:roles {:optional true :doc "that it has of those of the user; default: all"} ` + namesEntry + `]
				[:operations {:optional true :doc "that it may do, names or ns/*; default: all"} ` + namesEntry + `]
				[:intents {:optional true :doc "that it may use, names or ns/*; default: all"} ` + namesEntry + `]`,
			onIdentity: createToken, Grants: true, Secret: "token", Made: "token/id"},
		{Name: "token-list", Reads: true, Doc: "tokens, the latest first, without their texts",
			Input:      `[:user {:optional true :doc "only those of one user"} [:string {:min 1 :max 64}]]`,
			onIdentity: listTokens},
		{Name: "token-revoke", Doc: "revoke a token", Input: `[:token {:doc "its id"} [:string {:min 1 :max 80}]]` + dryEntry,
			onIdentity: func(ctx context.Context, c identityCall) (edn.Value, *contract.Error) {
				t, err := c.RevokeToken(ctx, text(c.in, "token"), c.dry())
				if err != nil {
					return edn.Nil(), err
				}
				return c.tokenValue(ctx, t, c.dry()), nil
			}},
	}
}

// userValue returns a user as EDN, without its password.
func (c identityCall) userValue(u identity.User, dry bool) edn.Value {
	status := "active"
	if u.Locked {
		status = "locked"
	}
	var b edn.MapBuilder
	b.Key("user/id", edn.Text(u.ID))
	b.Key("login", edn.Text(u.Login))
	b.Key("account/type", edn.K(u.Type))
	b.OptText("tenant", u.Tenant)
	b.Key("status", edn.K(status))
	b.Key("roles", edn.Keywords(u.Roles...))
	b.Key("roles/effective", edn.Keywords(c.RolesOf(c.set, &u)...))
	b.Key("password?", edn.Bool(u.Password != ""))
	b.Key("created-at", edn.Inst(u.Created))
	if dry {
		b.Key("dry-run?", edn.Bool(true))
	}
	return b.Map()
}

func (c identityCall) tokenValue(ctx context.Context, t identity.Token, dry bool) edn.Value {
	var b edn.MapBuilder
	b.Key("token/id", edn.Text(t.ID))
	b.Key("owner", edn.Text(t.Owner))
	if u, err := c.User(ctx, t.Owner); err == nil {
		b.Key("login", edn.Text(u.Login))
	}
	b.OptText("label", t.Label)
	b.OptKeyword("kind", string(t.Kind))
	b.OptText("session/id", t.Session)
	for key, v := range t.Narrow.Value().Entries() {
		b.Set(key, v)
	}
	b.Key("created-at", edn.Inst(t.Created))
	b.Key("expires-at", edn.Inst(t.Expires))
	if !time.Now().Before(t.Expires) {
		b.Key("expired?", edn.Bool(true))
	}
	if dry {
		b.Key("dry-run?", edn.Bool(true))
	}
	return b.Map()
}

func listUsers(ctx context.Context, c identityCall) (edn.Value, *contract.Error) {
	users, err := c.Users(ctx)
	out := make([]edn.Value, len(users))
	for i, u := range users {
		out[i] = c.userValue(u, false)
	}
	return edn.MustMap(edn.K("users"), edn.Vector(out...)), err
}

func createUser(ctx context.Context, c identityCall) (edn.Value, *contract.Error) {
	u, err := c.AddUser(ctx, c.set, identity.NewUser{
		Login:    c.user(),
		Type:     text(c.in, "type"),
		Tenant:   text(c.in, "tenant"),
		Roles:    names(c.in, "roles", fullRole),
		Password: text(c.in, "password"),
	})
	if err != nil {
		return edn.Nil(), err
	}
	return c.userValue(u, false), nil
}

// names returns the members of a set of names; nil if the key is missing.
func names(in edn.Value, key string, full func(string) string) []string {
	if !in.HasKey(key) {
		return nil
	}
	out := []string{}
	for name := range in.Key(key).Elems() {
		out = append(out, full(keyOf(name)))
	}
	return out
}

func listRoles(ctx context.Context, c identityCall) (edn.Value, *contract.Error) {
	users, err := c.Users(ctx)
	if err != nil {
		return edn.Nil(), err
	}
	created, err := c.Roles(ctx)
	if err != nil {
		return edn.Nil(), err
	}
	all := slices.Clone(c.set.Known)
	for _, r := range created {
		all = append(all, r.Name)
	}
	slices.Sort(all)
	var out []edn.Value
	for _, role := range all {
		if role == policy.RoleAny {
			continue // it is every caller
		}
		var held []edn.Value
		for i := range users {
			for _, has := range c.RolesOf(c.set, &users[i]) {
				if has == role {
					held = append(held, edn.Text(users[i].Login))
				}
			}
		}
		out = append(out, edn.MustMap(edn.K("role"), edn.K(role), edn.K("users"), edn.Vector(held...)))
	}
	return edn.MustMap(edn.K("roles"), edn.Vector(out...)), nil
}

// listKnownRoles returns the roles that can be granted, sorted by name.
func listKnownRoles(ctx context.Context, c identityCall) (edn.Value, *contract.Error) {
	created, err := c.Roles(ctx)
	if err != nil {
		return edn.Nil(), err
	}
	var out []edn.Value
	for _, role := range c.set.Known {
		if !policy.Grantable(role) {
			continue // not granted: depends only on the caller
		}
		source := "configuration"
		if slices.Contains(policy.BuiltinRoles(), role) {
			source = "built-in"
		}
		out = append(out, edn.MustMap(edn.K("role"), edn.K(role), edn.K("source"), edn.K(source)))
	}
	for _, r := range created {
		out = append(out, createdRole(r))
	}
	slices.SortFunc(out, func(a, b edn.Value) int { return strings.Compare(keyOf(a.Key("role")), keyOf(b.Key("role"))) })
	return edn.MustMap(edn.K("roles"), edn.Vector(out...)), nil
}

// createdRole returns a created role as EDN.
func createdRole(r identity.Role) edn.Value {
	var b edn.MapBuilder
	b.Key("role", edn.K(r.Name))
	b.Key("source", edn.K("created"))
	b.Key("includes", edn.Keywords(r.Includes...))
	b.OptText("doc", r.Doc)
	b.Key("created-at", edn.Inst(r.Created))
	return b.Map()
}

func createRole(ctx context.Context, c identityCall) (edn.Value, *contract.Error) {
	r, err := c.CreateRole(ctx, c.set, identity.Role{Name: c.role(), Doc: text(c.in, "doc"), Includes: names(c.in, "includes", fullRole)})
	if err != nil {
		return edn.Nil(), err
	}
	return createdRole(r), nil
}

func deleteRole(ctx context.Context, c identityCall) (edn.Value, *contract.Error) {
	r, err := c.DeleteRole(ctx, c.set, c.role(), c.dry())
	if err != nil {
		return edn.Nil(), err
	}
	if c.dry() {
		return createdRole(r).AssocKey("dry-run?", edn.Bool(true)), nil
	}
	return createdRole(r), nil
}

func createToken(ctx context.Context, c identityCall) (edn.Value, *contract.Error) {
	ms, _ := c.in.Key("ttl-ms").AsInt()
	plain := func(name string) string { return name }
	t, token, err := c.AddToken(ctx, c.set, identity.NewToken{
		Owner: c.user(),
		Label: text(c.in, "label"),
		TTL:   time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond,
		Narrow: policy.Narrowing{
			Roles:      names(c.in, "roles", fullRole),
			Operations: names(c.in, "operations", plain),
			Intents:    names(c.in, "intents", plain),
		},
	})
	if err != nil {
		return edn.Nil(), err
	}
	return c.tokenValue(ctx, t, false).AssocKey("token", edn.Text(token)), nil
}

func listTokens(ctx context.Context, c identityCall) (edn.Value, *contract.Error) {
	tokens, err := c.Tokens(ctx, c.user())
	out := make([]edn.Value, len(tokens))
	for i, t := range tokens {
		out[i] = c.tokenValue(ctx, t, false)
	}
	return edn.MustMap(edn.K("tokens"), edn.Vector(out...)), err
}

// onIdentity returns the call of an action on users, roles or tokens; an error if a limited
// credential may not execute it.
func (x *exchange) onIdentity(a *Action, body edn.Value) (identityCall, *contract.Error) {
	if a.Grants && x.who.Narrow != nil {
		return identityCall{}, contract.Errorf("auth/forbidden",
			"%s grants rights, which is not permitted with a credential that has limits", a.Operation()).
			WithHint("use a credential without limits")
	}
	service := x.api.backend.Identity()
	if service == nil {
		return identityCall{}, contract.Errorf("runtime/starting", "the daemon is coming up")
	}
	return identityCall{Service: service, set: x.settings.Identity, in: body}, nil
}

// serveWhoami handles GET /v1/whoami.
func serveWhoami(x *exchange) reply {
	var b edn.MapBuilder
	b.Key("principal", edn.Text(x.who.Name))
	b.Key("principal/type", edn.K(x.who.Type))
	b.OptText("login", x.who.Login)
	b.OptText("tenant", x.who.Tenant)
	b.OptText("token/id", x.who.Token)
	b.OptText("session/id", x.who.Session)
	if !x.who.Expires.IsZero() {
		b.Key("expires-at", journal.Instant(x.who.Expires))
	}
	b.Key("roles", edn.Keywords(x.who.Roles...))
	b.Opt("narrow", x.who.Narrow.Value())
	var may []string
	for _, o := range append(policy.Operations(), policy.Admin) {
		if x.may(o) {
			may = append(may, o)
		}
	}
	if !x.may(policy.Admin) { // single actions
		may = append(may, slices.DeleteFunc(slices.Clone(policy.AdminOperations), func(o string) bool { return !x.may(o) })...)
	}
	b.Key("operations", edn.Keywords(may...))
	return reply{status: 200, body: b.Map()}
}
