package identity

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// loginForm is the form of logins.
var loginForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._@+-]{0,63}$`)

// NewUser describes a user to create.
type NewUser struct {
	Login, Type string // an empty Type is SimpleType
	Tenant      string // empty: the host itself
	Roles       []string
	Password    string // empty: no login with a password, only with tokens
}

// Users returns all users, sorted by login. The error is auth/busy if the store cannot be
// read.
func (s *Service) Users(ctx context.Context) ([]User, *contract.Error) {
	d, err := s.current(ctx)
	if err != nil {
		return nil, err
	}
	return slices.SortedFunc(slices.Values(d.Users), func(a, b User) int { return strings.Compare(a.Login, b.Login) }), nil
}

// User returns the user with a login or an id. The error is user/not-found, or auth/busy if
// the store cannot be read.
func (s *Service) User(ctx context.Context, who string) (User, *contract.Error) {
	d, err := s.current(ctx)
	if err != nil {
		return User{}, err
	}
	return d.user(who)
}

// user returns the user with a login or an id.
func (a *Accounts) user(who string) (User, *contract.Error) {
	i := slices.IndexFunc(a.Users, func(u User) bool { return u.Login == who || u.ID == who })
	if i >= 0 {
		return a.Users[i], nil
	}
	var known []string
	for _, u := range a.Users {
		known = append(known, u.Login)
	}
	return User{}, contract.Errorf("user/not-found", "there is no user %.80q", who).
		WithHint("\"ferment user list\" lists them").DidYouMean(contract.Nearest(who, known))
}

// AddUser creates a user and returns it. The errors are invalid-request,
// user/already-exists, user/unknown-role, user/invalid-role, auth/busy if too many password
// hashes are waiting, and journal/unavailable.
func (s *Service) AddUser(ctx context.Context, set *Settings, n NewUser) (User, *contract.Error) {
	u := User{Login: n.Login, Type: n.Type, Tenant: n.Tenant, Roles: sorted(n.Roles), Created: time.Now().UTC().Truncate(time.Millisecond)}
	if u.Type == "" {
		u.Type = SimpleType
	}
	if !loginForm.MatchString(u.Login) {
		return User{}, contract.Errorf("invalid-request", "%.80q is not a login: expected 1 to 64 of a-z 0-9 . _ @ + -, beginning with a letter or digit", u.Login)
	}
	if types := set.Types(); !slices.Contains(types, u.Type) {
		return User{}, contract.Errorf("invalid-request", "there is no account type %.40q", u.Type).
			WithHint("use one of " + strings.Join(types, ", ") +
				"; auth { account_roles = { ... } } in ferment.hcl adds others").
			DidYouMean(contract.Nearest(u.Type, types))
	}
	if u.Tenant != "" {
		if err := CheckTenant(u.Tenant); err != nil {
			return User{}, err
		}
	}
	if err := set.grantable(u.Roles, s.now.Load().Roles); err != nil {
		return User{}, err
	}
	if n.Password != "" {
		password, err := acceptable(n.Password, set.Basic.MinBytes)
		if err == nil {
			u.Password, err = s.hash(ctx, set, password)
		}
		if err != nil {
			return User{}, err
		}
	}
	err := s.update(ctx, false, func(a *Accounts) (Change, *contract.Error) {
		if slices.ContainsFunc(a.Users, func(x User) bool { return x.Login == u.Login }) {
			return Change{}, contract.Errorf("user/already-exists", "there is a user %q already", u.Login).
				WithHint("\"ferment user show " + u.Login + "\" shows it")
		}
		if err := set.grantable(u.Roles, a.Roles); err != nil {
			return Change{}, err // a role was deleted meanwhile
		}
		u.ID = "user/" + strconv.FormatInt(a.Version+1, 10)
		return Change{Put: []User{u}}, nil
	})
	return u, err
}

// grantable rejects roles that cannot be assigned (user/invalid-role) or do not exist
// (user/unknown-role).
func (set *Settings) grantable(roles []string, created []Role) *contract.Error {
	for _, role := range roles {
		if !policy.Grantable(role) {
			return contract.Errorf("user/invalid-role", "the role :%s cannot be granted: the host assigns it to callers", role)
		}
		if set.has(role, created) {
			continue
		}
		known := slices.DeleteFunc(slices.Clone(set.Known), func(name string) bool { return !policy.Grantable(name) })
		for _, r := range created {
			known = append(known, r.Name)
		}
		return contract.Errorf("user/unknown-role", "there is no role :%.80s", role).
			WithHint("add a block role \"" + strings.TrimPrefix(role, "role/") + "\" to ferment.hcl, or use one of " + edn.Keywords(known...).String()).
			DidYouMean(contract.Nearest(role, known))
	}
	return nil
}

// SetPassword changes the password of a user and deletes its browser and session tokens. The errors
// include invalid-request for an unacceptable password, user/not-found and auth/busy.
func (s *Service) SetPassword(ctx context.Context, set *Settings, who, password string) (User, *contract.Error) {
	b, err := acceptable(password, set.Basic.MinBytes)
	if err != nil {
		return User{}, err
	}
	hash, err := s.hash(ctx, set, b)
	if err != nil {
		return User{}, err
	}
	return s.shutOut(ctx, set, who, false, func(u *User) { u.Password = hash })
}

// Lock locks an account, or unlocks it if locked is false. A locked account cannot log in
// and its tokens are rejected; locking also deletes its browser and session tokens. With
// dry the change is checked, but not written. The errors include user/not-found and
// user/last-admin.
func (s *Service) Lock(ctx context.Context, set *Settings, who string, locked, dry bool) (User, *contract.Error) {
	if !locked {
		return s.alter(ctx, set, who, dry, func(u *User) { u.Locked = false })
	}
	return s.shutOut(ctx, set, who, dry, func(u *User) { u.Locked = true })
}

// shutOut is alter for a change that also deletes the browser and session tokens of the
// user.
func (s *Service) shutOut(ctx context.Context, set *Settings, who string, dry bool, change func(*User)) (User, *contract.Error) {
	return s.alterWith(ctx, set, who, dry, change, func(t *Token) bool { return t.Kind != ForPrograms })
}

// Forgive clears the counters of failed logins of an account, on this host only. The errors are
// those of User.
func (s *Service) Forgive(ctx context.Context, who string) (User, *contract.Error) {
	u, err := s.User(ctx, who)
	if err == nil {
		s.failed.forget(u.Login, "")
	}
	return u, err
}

// Grant adds a role to a user. The errors include user/not-found, user/unknown-role and
// user/invalid-role.
func (s *Service) Grant(ctx context.Context, set *Settings, who, role string) (User, *contract.Error) {
	return s.alter(ctx, set, who, false, func(u *User) { u.Roles = sorted(append(slices.Clone(u.Roles), role)) })
}

// Revoke removes a role from a user; a role that the user does not have changes nothing.
// With dry the change is checked, but not written. The errors include user/not-found and
// user/last-admin.
func (s *Service) Revoke(ctx context.Context, set *Settings, who, role string, dry bool) (User, *contract.Error) {
	return s.alter(ctx, set, who, dry, func(u *User) {
		u.Roles = slices.DeleteFunc(slices.Clone(u.Roles), func(r string) bool { return r == role })
	})
}

// alter changes one user and returns it. With dry the change is checked, but not written.
func (s *Service) alter(ctx context.Context, set *Settings, who string, dry bool, change func(*User)) (User, *contract.Error) {
	return s.alterWith(ctx, set, who, dry, change, func(*Token) bool { return false })
}

// alterWith is alter, and also deletes the tokens of the user for which ends returns true.
func (s *Service) alterWith(
	ctx context.Context, set *Settings, who string, dry bool, change func(*User), ends func(*Token) bool,
) (User, *contract.Error) {
	var out User
	err := s.update(ctx, dry, func(a *Accounts) (c Change, err *contract.Error) {
		if out, err = a.user(who); err != nil {
			return Change{}, err
		}
		had := out.Roles
		change(&out)
		granted := slices.DeleteFunc(slices.Clone(out.Roles), func(role string) bool { return slices.Contains(had, role) })
		if err := set.grantable(granted, a.Roles); err != nil {
			return Change{}, err
		}
		c.Put = []User{out}
		for i := range a.Tokens {
			if t := &a.Tokens[i]; t.Owner == out.ID && ends(t) {
				c.DropToken = append(c.DropToken, t.ID)
			}
		}
		return c, set.keepsAdmin(a, c)
	})
	return out, err
}

// keepsAdmin rejects a change after which no user can administer the host
// (user/last-admin).
func (set *Settings) keepsAdmin(a *Accounts, c Change) *contract.Error {
	if after := a.with(c); a.administered(set) && !after.administered(set) {
		return contract.Errorf("user/last-admin", "no administrator would remain").
			WithHint("first grant the role admin to another user")
	}
	return nil
}

// administered reports whether any user can administer the host: an unlocked one with the
// role admin and without tenant.
func (a *Accounts) administered(set *Settings) bool {
	return slices.ContainsFunc(a.Users, func(u User) bool {
		return !u.Locked && u.Tenant == "" && slices.Contains(a.RolesOf(set, &u), policy.RoleAdmin)
	})
}

// DeleteUser deletes a user with its tokens, and returns the user and the number of its
// tokens. With dry the change is checked, but not written. The errors include
// user/not-found and user/last-admin.
func (s *Service) DeleteUser(ctx context.Context, set *Settings, who string, dry bool) (u User, tokens int, err *contract.Error) {
	err = s.update(ctx, dry, func(a *Accounts) (c Change, err *contract.Error) {
		if u, err = a.user(who); err != nil {
			return Change{}, err
		}
		c.Drop, tokens = []string{u.ID}, 0
		for _, t := range a.Tokens {
			if t.Owner == u.ID {
				c.DropToken = append(c.DropToken, t.ID)
				tokens++
			}
		}
		return c, set.keepsAdmin(a, c)
	})
	return u, tokens, err
}

// NewToken describes a token to create.
type NewToken struct {
	Owner  string // login or id
	Label  string
	TTL    time.Duration // 0: that of the configuration
	Narrow policy.Narrowing
}

// AddToken creates a token for programs and returns it with its text, of which only a hash
// is stored. The errors include invalid-request, user/not-found and user/unknown-role.
func (s *Service) AddToken(ctx context.Context, set *Settings, n NewToken) (t Token, text string, err *contract.Error) {
	ttl := n.TTL
	if ttl == 0 {
		ttl = set.TokenTTL
	}
	if ttl <= 0 || ttl > set.MaxTokenTTL {
		return t, "", contract.Errorf("invalid-request", "the token would last %s, expected up to %s", ttl, set.MaxTokenTTL).
			WithHint("the limit is auth { tokens { max_ttl } } in ferment.hcl")
	}
	if err := knownOperations(n.Narrow.Operations); err != nil {
		return t, "", err
	}
	if err := set.knownIntents(n.Narrow.Intents); err != nil {
		return t, "", err
	}
	t = Token{Owner: n.Owner, Label: n.Label, Narrow: n.Narrow}
	text, err = s.issue(ctx, &t, ttl, func(a *Accounts, _ *Change) *contract.Error {
		return set.grantable(n.Narrow.Roles, a.Roles)
	})
	return t, text, err
}

// knownOperations rejects operations that do not exist.
func knownOperations(names []string) *contract.Error {
	known := append(policy.Operations(), policy.AdminOperations...)
	for _, name := range names {
		if slices.Contains(known, name) ||
			strings.HasSuffix(name, "/*") && slices.ContainsFunc(known, func(k string) bool { return policy.Matches([]string{name}, k) }) {
			continue
		}
		return contract.Errorf("invalid-request", "there is no operation :%.80s", name).
			WithHint("use one of " + edn.Keywords(policy.Operations()...).String() + " or :admin/*").
			DidYouMean(contract.Nearest(name, known))
	}
	return nil
}

// knownIntents rejects intents that the configuration neither declares nor serves, because
// a token limited to them could do nothing. A pattern ns/* is accepted, because its
// namespace may get intents later.
func (set *Settings) knownIntents(names []string) *contract.Error {
	for _, name := range names {
		if set.Intents == nil || strings.HasSuffix(name, "/*") || slices.ContainsFunc(set.Intents, func(k string) bool { return policy.Matches([]string{name}, k) }) {
			continue
		}
		return contract.Errorf("invalid-request", "there is no intent :%.80s", name).
			WithHint("\"ferment plugin list\" shows what is served; write all of a namespace as text/*").
			DidYouMean(contract.Nearest(name, set.Intents))
	}
	return nil
}

// Tokens returns the tokens of a user, or all tokens if who is empty, newest first. Expired tokens
// for programs are listed for 30 days. The errors are those of User.
func (s *Service) Tokens(ctx context.Context, who string) ([]Token, *contract.Error) {
	d, err := s.current(ctx)
	if err != nil {
		return nil, err
	}
	owner := ""
	if who != "" {
		u, err := d.user(who)
		if err != nil {
			return nil, err
		}
		owner = u.ID
	}
	all := slices.DeleteFunc(slices.Clone(d.Tokens), func(t Token) bool { return owner != "" && t.Owner != owner })
	slices.SortFunc(all, func(a, b Token) int { return b.Created.Compare(a.Created) })
	return all, nil
}

// RevokeToken deletes the token with an id, or with a text that contains its id (see IDOf), and
// returns it. With dry the change is checked, but not written. The error is not-found if there is
// none, or journal/unavailable.
func (s *Service) RevokeToken(ctx context.Context, id string, dry bool) (t Token, err *contract.Error) {
	if known, ok := IDOf(id); ok {
		id = known
	}
	err = s.update(ctx, dry, func(a *Accounts) (Change, *contract.Error) {
		i := slices.IndexFunc(a.Tokens, func(x Token) bool { return x.ID == id })
		if i < 0 {
			return Change{}, contract.Errorf("not-found", "there is no token %.20q", id).
				WithHint("\"ferment token list\" lists them")
		}
		t = a.Tokens[i]
		return Change{DropToken: []string{id}}, nil
	})
	return t, err
}
