package identity

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Role is a role that an administrator created. Its holders also have the roles of the
// configuration that it includes; access rules can name only the latter. It is immutable.
type Role struct {
	Name     string // qualified and without colon
	Doc      string
	Includes []string // roles of the configuration, sorted
	Created  time.Time
}

// roleForm is the form of the names of created roles, the same as that of role blocks.
var roleForm = regexp.MustCompile(`^role/[a-z0-9][a-z0-9._+-]{0,63}$`)

// withIncluded returns roles and the roles that the created ones among them include.
func (a *Accounts) withIncluded(roles []string) []string {
	for _, r := range a.Roles {
		if slices.Contains(roles, r.Name) {
			roles = append(slices.Clone(roles), r.Includes...)
		}
	}
	return roles
}

// Roles returns the created roles, sorted by name. The slice must not be changed. The error is
// auth/busy if the store cannot be read.
func (s *Service) Roles(ctx context.Context) ([]Role, *contract.Error) {
	d, err := s.current(ctx)
	if err != nil {
		return nil, err
	}
	return d.Roles, nil
}

// RolesOf returns the roles of a user (see Accounts.RolesOf).
func (s *Service) RolesOf(set *Settings, u *User) []string { return s.now.Load().RolesOf(set, u) }

// CreateRole creates a role. The error is role/in-use for the name of a role that exists, and for
// one that users or tokens still have from an earlier configuration: they would get the roles that
// the new role includes. The other errors are role/invalid-role, user/unknown-role,
// user/invalid-role and journal/unavailable.
func (s *Service) CreateRole(ctx context.Context, set *Settings, r Role) (Role, *contract.Error) {
	r.Includes, r.Created = sorted(r.Includes), time.Now().UTC().Truncate(time.Millisecond)
	short := strings.TrimPrefix(r.Name, "role/")
	if !roleForm.MatchString(r.Name) {
		return r, contract.Errorf("role/invalid-role", "%.80q is not the name of a role: expected 1 to 64 of a-z 0-9 . _ + -, beginning with a letter or digit", short)
	}
	if slices.Contains(set.Known, r.Name) || slices.Contains(policy.BuiltinRoles(), r.Name) {
		hint := "choose another name"
		if policy.Grantable(r.Name) {
			hint += "; \"ferment role grant USER " + short + "\" gives this one to a user"
		}
		return r, contract.Errorf("role/in-use", "the configuration has the role :%s", r.Name).WithHint(hint)
	}
	err := s.update(ctx, false, func(a *Accounts) (Change, *contract.Error) {
		if set.has(r.Name, a.Roles) {
			return Change{}, contract.Errorf("role/in-use", "the role :%s already exists", r.Name).
				WithHint("delete it first, or choose another name")
		}
		for _, role := range r.Includes {
			if slices.ContainsFunc(a.Roles, func(c Role) bool { return c.Name == role }) {
				return Change{}, contract.Errorf("role/invalid-role", "the role :%s cannot include :%s, which is not a role of the configuration", r.Name, role).
					WithHint("include roles of the configuration")
			}
		}
		if users, tokens := a.holding(r.Name); len(users)+len(tokens) > 0 { // from a time when it existed
			return Change{}, inUse(r.Name, users, tokens)
		}
		return Change{PutRole: []Role{r}}, set.grantable(r.Includes, nil)
	})
	return r, err
}

// DeleteRole deletes a created role and returns it. The errors are role/in-use if a user or token
// has it, role/not-found, role/invalid-role for a role of the configuration, and
// journal/unavailable. With dry the change is checked, but not written.
func (s *Service) DeleteRole(ctx context.Context, set *Settings, name string, dry bool) (out Role, err *contract.Error) {
	err = s.update(ctx, dry, func(a *Accounts) (Change, *contract.Error) {
		i := slices.IndexFunc(a.Roles, func(r Role) bool { return r.Name == name })
		if i < 0 {
			return Change{}, set.notCreated(name, a.Roles)
		}
		out = a.Roles[i]
		if users, tokens := a.holding(name); len(users)+len(tokens) > 0 {
			return Change{}, inUse(name, users, tokens)
		}
		return Change{DropRole: []string{name}}, nil
	})
	return out, err
}

// holding returns the logins of the users that have a role, and the ids of the tokens that
// are limited to it.
func (a *Accounts) holding(role string) (users, tokens []string) {
	for _, u := range a.Users {
		if slices.Contains(u.Roles, role) {
			users = append(users, u.Login)
		}
	}
	for _, t := range a.Tokens {
		if slices.Contains(t.Narrow.Roles, role) {
			tokens = append(tokens, t.ID)
		}
	}
	return sorted(users), sorted(tokens)
}

// manyNamed is the maximum number of users or tokens named in the text of an error.
const manyNamed = 3

func inUse(role string, users, tokens []string) *contract.Error {
	held, who := "users have", users
	if len(users) == 1 {
		held = "user has"
	}
	hint := "ferment role revoke " + strings.Join(append(slices.Clone(users[:min(len(users), 1)]), strings.TrimPrefix(role, "role/")), " ")
	if len(users) == 0 {
		held, who, hint = "tokens are limited to", tokens, "ferment token revoke "+tokens[0]
		if len(tokens) == 1 {
			held = "token is limited to"
		}
	}
	named := strings.Join(who[:min(len(who), manyNamed)], ", ")
	if len(who) > manyNamed {
		named += " ..."
	}
	return contract.Errorf("role/in-use", "%d %s the role :%s: %s", len(who), held, role, named).
		WithDetail("users", texts(users)).WithDetail("tokens", texts(tokens)).
		WithHint("revoke it first, for example: " + hint)
}

func texts(list []string) edn.Value {
	out := make([]edn.Value, len(list))
	for i, text := range list {
		out[i] = edn.Text(text)
	}
	return edn.Vector(out...)
}

// notCreated returns the error for a role that cannot be deleted, because it belongs to the
// configuration or does not exist.
func (set *Settings) notCreated(name string, created []Role) *contract.Error {
	if slices.Contains(set.Known, name) {
		return contract.Errorf("role/invalid-role",
			"the role :%s is declared in the configuration and cannot be deleted with this action", name).
			WithHint("delete its block from ferment.hcl and reload; the built-in roles stay")
	}
	var known []string
	for _, r := range created {
		known = append(known, r.Name)
	}
	return contract.Errorf("role/not-found", "there is no role :%.80s", name).
		WithHint("\"ferment role list\" lists the roles").DidYouMean(contract.Nearest(name, known))
}

// Clash returns a config/duplicate error if the configuration has a role with the name of a
// created one, because it would be unclear which of them applies; nil if there is none.
func (s *Service) Clash(set *Settings) *contract.Error {
	for _, r := range s.now.Load().Roles {
		if slices.Contains(set.Known, r.Name) {
			short := strings.TrimPrefix(r.Name, "role/")
			return contract.Errorf("config/duplicate", "the role %q of the configuration has the name of a role that an administrator created", short).
				WithHint("rename the block role \"" + short + "\", or delete the created role: ferment role delete " + short)
		}
	}
	return nil
}
