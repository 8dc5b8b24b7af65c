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
	// Tenant is the name of its tenant; empty: the host itself.
	Tenant string
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
	ID    string
	Kind  TokenKind
	Owner string // id of a user
	Label string
	// Session is the session of a token ForSession.
	Session string
	// Parent is the id of the token that its maker has shown; empty: it had another
	// credential. The token ends with its parent.
	Parent  string
	Hash    [32]byte // of the text of the token
	Narrow  policy.Narrowing
	Created time.Time
	Expires time.Time
}

// TokenKind is how a token is sent. One of another kind is not accepted.
type TokenKind string

// The kinds of tokens.
const (
	ForPrograms TokenKind = ""        // as bearer, until it expires
	ForSession  TokenKind = "session" // in a header of its own, while its session is used
	ForBrowser  TokenKind = "browser" // as cookie, after a login with a password
)

// Accounts are all users, tokens and created roles.
type Accounts struct {
	// Version grows with every change.
	Version int64
	Users   []User
	Tokens  []Token
	Roles   []Role // by name
}

// Change is what an update writes.
type Change struct {
	Put       []User // new and changed ones
	Drop      []string
	PutToken  []Token
	DropToken []string
	PutRole   []Role // new ones
	DropRole  []string
}

// Empty reports whether the change writes nothing.
func (c *Change) Empty() bool {
	return len(c.Put)+len(c.Drop)+len(c.PutToken)+len(c.DropToken)+len(c.PutRole)+len(c.DropRole) == 0
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
	// Intents are those that a token may be limited to; nil: any.
	Intents []string
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
	Sessions              SessionTokens
	// BrowserTTL is how long a login of a browser lasts; 0: browsers cannot log in.
	BrowserTTL time.Duration
	// Certificates maps the names of client certificates to logins or ids of users.
	Certificates map[string]string
	Locks        Locks
	// Issuers are other servers whose tokens identify callers. Their URLs differ.
	Issuers []Issuer
}

// Basic are the settings of passwords.
type Basic struct {
	Enabled  bool          // a request may carry login and password
	Remember time.Duration // how long a verified password is not hashed again
	MinBytes int
	// Memory in KiB and Time are the parameters of argon2id.
	Memory, Time uint32
}

// SessionTokens are the settings of tokens of sessions.
type SessionTokens struct {
	// Operations that they may do; empty: there are no such tokens.
	Operations []string
	// IdleTTL is how long an unused token lasts. Its use is noted at most every Refresh.
	IdleTTL, Refresh time.Duration
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
// of all users, and the global ones (AUTH-006). A created role comes with those that it
// includes.
func (a *Accounts) RolesOf(s *Settings, u *User) []string {
	return s.known(a.withIncluded(slices.Concat(s.Account[u.Type], u.Roles, []string{s.LoggedIn}, s.Global)), a.Roles...)
}

// Nameless returns the principal of callers without credentials.
func (s *Settings) Nameless(name string) Principal {
	return Principal{Name: name, Type: name, Roles: s.known(slices.Concat([]string{s.Anonymous}, s.Global))}
}

// known returns those of the roles that the configuration has or that were created.
func (s *Settings) known(roles []string, created ...Role) []string {
	return slices.DeleteFunc(sorted(roles), func(role string) bool { return !s.has(role, created) })
}

func (s *Settings) has(role string, created []Role) bool {
	return slices.Contains(s.Known, role) || slices.ContainsFunc(created, func(r Role) bool { return r.Name == role })
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
	// Tenant is the name of its tenant; empty: the host itself.
	Tenant string
	// Token is the id of the token that the caller has shown; empty: it has another
	// credential.
	Token string
	// Session is the only session that the caller may use; empty: all of its own.
	Session string
	Roles   []string
	Narrow  *policy.Narrowing // limits of the token; nil: none
	// Expires is when the credential of a caller without account ends; zero: it does not.
	Expires time.Time
}

// Caller returns the principal as rules see it.
func (p *Principal) Caller() policy.Caller {
	return policy.Caller{Roles: p.Roles, Narrow: p.Narrow, Tenant: p.Tenant}
}
