package httpapi

import (
	"context"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
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

// identityActions are the actions on users, roles and tokens.
func identityActions() []Action {
	onUser := func(name, doc, more string, do func(context.Context, identityCall) (identity.User, *contract.Error)) Action {
		return Action{Name: name, Doc: doc, Input: userEntry + more,
			onIdentity: func(ctx context.Context, c identityCall) (edn.Value, *contract.Error) {
				u, err := do(ctx, c)
				if err != nil {
					return edn.Nil(), err
				}
				return c.userValue(u, c.dry()), nil
			}}
	}
	return []Action{
		{Name: "list-users", Doc: "all users with their roles", onIdentity: listUsers},
		onUser("show-user", "one user", "", func(ctx context.Context, c identityCall) (identity.User, *contract.Error) {
			return c.User(ctx, c.user())
		}),
		{Name: "create-user", Doc: "create a user; without a password it can only have tokens",
			Input: `[:user {:doc "login: a-z 0-9 . _ @ + -"} [:string {:min 1 :max 64}]] [:type {:optional true :doc "of the account; default: simple"} [:string {:min 1 :max 64}]]
				[:roles {:optional true} ` + namesEntry + `] [:password {:optional true} ` + passwordEntry + `]`,
			onIdentity: createUser},
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
		{Name: "delete-user", Doc: "delete a user with its tokens", Input: userEntry + dryEntry,
			onIdentity: func(ctx context.Context, c identityCall) (edn.Value, *contract.Error) {
				u, tokens, err := c.DeleteUser(ctx, c.set, c.user(), c.dry())
				if err != nil {
					return edn.Nil(), err
				}
				return c.userValue(u, c.dry()).AssocKey("tokens", edn.Int(int64(tokens))), nil
			}},
		{Name: "list-roles", Doc: "the roles of the configuration, and who has them", onIdentity: listRoles},
		{Name: "token-create", Doc: "create a token of a user; its text is in this response and nowhere else",
			Input: userEntry + ` [:label {:optional true} [:string {:min 1 :max 128}]] [:ttl-ms {:optional true} [:int {:min 1000}]]
				[:roles {:optional true :doc "that it has of those of the user; default: all"} ` + namesEntry + `]
				[:operations {:optional true :doc "that it may do, names or ns/*; default: all"} ` + namesEntry + `]
				[:intents {:optional true :doc "that it may use, names or ns/*; default: all"} ` + namesEntry + `]`,
			onIdentity: createToken},
		{Name: "token-list", Doc: "tokens, the latest first, without their texts",
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

// userValue returns a user as data, without its password.
func (c identityCall) userValue(u identity.User, dry bool) edn.Value {
	status := "active"
	if u.Locked {
		status = "locked"
	}
	var b edn.MapBuilder
	b.Key("user/id", edn.Text(u.ID))
	b.Key("login", edn.Text(u.Login))
	b.Key("account/type", edn.K(u.Type))
	b.Key("status", edn.K(status))
	b.Key("roles", edn.Keywords(u.Roles...))
	b.Key("roles/effective", edn.Keywords(c.set.RolesOf(&u)...))
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
		Roles:    names(c.in, "roles", fullRole),
		Password: text(c.in, "password"),
	})
	if err != nil {
		return edn.Nil(), err
	}
	return c.userValue(u, false), nil
}

// names returns a set of names, nil if there is none.
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
	var out []edn.Value
	for _, role := range c.set.Known {
		if role == policy.RoleAny {
			continue // it is every caller
		}
		var held []edn.Value
		for i := range users {
			for _, has := range c.set.RolesOf(&users[i]) {
				if has == role {
					held = append(held, edn.Text(users[i].Login))
				}
			}
		}
		out = append(out, edn.MustMap(edn.K("role"), edn.K(role), edn.K("users"), edn.Vector(held...)))
	}
	return edn.MustMap(edn.K("roles"), edn.Vector(out...)), nil
}

func createToken(ctx context.Context, c identityCall) (edn.Value, *contract.Error) {
	ms, _ := c.in.Key("ttl-ms").AsInt()
	plain := func(name string) string { return name }
	t, token, err := c.AddToken(ctx, c.set, identity.NewToken{
		Owner: c.user(),
		Label: text(c.in, "label"),
		TTL:   time.Duration(ms) * time.Millisecond,
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

// onIdentity executes an action on users, roles and tokens. The audit trail has its
// input without the password.
func (x *exchange) onIdentity(ctx context.Context, a *Action, body edn.Value) (result, logged edn.Value, err *contract.Error) {
	logged = body.Dissoc(edn.K("password"))
	service := x.api.backend.Identity()
	if service == nil {
		return edn.Nil(), logged, contract.Errorf("runtime/starting", "the daemon is coming up")
	}
	result, err = a.onIdentity(ctx, identityCall{Service: service, set: x.settings.Identity, in: body})
	return result, logged, err
}

// serveWhoami handles GET /v1/whoami.
func serveWhoami(x *exchange) reply {
	var b edn.MapBuilder
	b.Key("principal", edn.Text(x.who.Name))
	b.Key("principal/type", edn.K(x.who.Type))
	b.OptText("login", x.who.Login)
	b.OptText("token/id", x.who.Token)
	b.Key("roles", edn.Keywords(x.who.Roles...))
	b.Opt("narrow", x.who.Narrow.Value())
	var may []string
	for _, o := range append(policy.Operations(), policy.Admin) {
		if x.may(o) {
			may = append(may, o)
		}
	}
	b.Key("operations", edn.Keywords(may...))
	return reply{status: 200, body: b.Map()}
}
