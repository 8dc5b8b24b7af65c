package identity

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
)

// User is a person or a program with an account. It is immutable.
type User struct {
	ID    string // user/ and a number that is never used again
	Login string
	Type  string // of the account
	// Roles are those granted to it, sorted, qualified and without colon.
	Roles []string
	// Password is the hash in PHC format; empty: it has none.
	Password string
	Locked   bool
	Created  time.Time
	Changed  int64 // version of the accounts with its last change
}

// Token is a credential of a user. It is immutable.
type Token struct {
	ID      string
	Owner   string // id of a user
	Label   string
	Hash    [32]byte // of the text of the token
	Narrow  policy.Narrowing
	Created time.Time
	Expires time.Time
}

// Accounts are all users and tokens.
type Accounts struct {
	// Version grows with every change.
	Version int64
	Users   []User
	Tokens  []Token
}

// Change is what an update writes.
type Change struct {
	Put       []User // new and changed ones
	Drop      []string
	PutToken  []Token
	DropToken []string
}

// Empty reports whether the change writes nothing.
func (c *Change) Empty() bool {
	return len(c.Put)+len(c.Drop)+len(c.PutToken)+len(c.DropToken) == 0
}

// Store keeps accounts.
type Store interface {
	// Accounts returns everything.
	Accounts(ctx context.Context) (Accounts, error)
	// Version returns the version of the accounts.
	Version(ctx context.Context) (int64, error)
	// Update writes what change returns for the stored accounts, in one transaction.
	// The users and tokens that it writes belong to the version Version + 1. An error
	// of change is returned as it is, and nothing is written.
	Update(ctx context.Context, change func(Accounts) (Change, error)) error
	// Shared reports whether other hosts change the accounts as well.
	Shared() bool
}

// Settings are those of the configuration. They are immutable.
type Settings struct {
	// Required rejects callers without credentials on every listener.
	Required bool
	// Known are all roles of the configuration, sorted. A granted role that is not
	// among them is ignored.
	Known []string
	// Anonymous is the role of callers without credentials, LoggedIn that of all
	// others, Global are those of both.
	Anonymous, LoggedIn string
	Global              []string
	Account             map[string][]string // roles by account type
	// Strong are the account types with the lower limit of failed logins.
	Strong []string
	Basic  Basic
	// TokenTTL is the lifetime of a token that is made without one, MaxTokenTTL the
	// longest.
	TokenTTL, MaxTokenTTL time.Duration
	Locks                 Locks
}

// Basic are the settings of passwords.
type Basic struct {
	Enabled  bool          // a request may carry login and password
	Remember time.Duration // how long a verified password is not hashed again
	MinBytes int
	// Memory in KiB and Time are the parameters of argon2id.
	Memory, Time uint32
}

// Locks limit failed logins. A counter loses one failure per Forgive; one that
// reaches Max refuses the pair of account and network for Window. The accounts of
// strong types have their own limit. MaxDelay bounds the delay of logins to an
// account, which grows with its failures from all networks.
type Locks struct {
	StrongMax, Max                          int
	StrongWindow, Window, Forgive, MaxDelay time.Duration
}

// SimpleType is the account type of users that are created without one.
const SimpleType = "simple"

// Types returns the account types, sorted.
func (s *Settings) Types() []string {
	all := append(slices.Collect(maps.Keys(s.Account)), s.Strong...)
	return sorted(append(all, SimpleType))
}

// RolesOf returns the roles of a user: those of its account type, its own, the role
// of all users, and the global ones (AUTH-006).
func (s *Settings) RolesOf(u *User) []string {
	return s.known(slices.Concat(s.Account[u.Type], u.Roles, []string{s.LoggedIn}, s.Global))
}

// Nameless returns the principal of callers without credentials.
func (s *Settings) Nameless(name string) Principal {
	return Principal{Name: name, Type: name, Roles: s.known(slices.Concat([]string{s.Anonymous}, s.Global))}
}

func (s *Settings) known(roles []string) []string {
	return slices.DeleteFunc(sorted(roles), func(role string) bool { return !slices.Contains(s.Known, role) })
}

// sorted returns the distinct strings in order.
func sorted[T cmp.Ordered](list []T) []T {
	return slices.Compact(slices.Sorted(slices.Values(list)))
}

// Principal is who a caller is.
type Principal struct {
	Name string // as in records: the id of a user
	Type string // account type
	// Login is how people know it; empty for callers without account.
	Login string
	// Token is the id of the token that the caller has shown; empty: it has another
	// credential.
	Token  string
	Roles  []string
	Narrow *policy.Narrowing // limits of the token; nil: none
}

// Caller returns the principal as rules see it.
func (p *Principal) Caller() policy.Caller { return policy.Caller{Roles: p.Roles, Narrow: p.Narrow} }
