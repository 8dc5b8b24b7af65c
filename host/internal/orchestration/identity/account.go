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
	ID    string // user/ and a number that is never reused
	Login string
	Type  string // of the account
	// Tenant is the name of its tenant; empty: the host itself.
	Tenant string
	// Roles are the roles assigned to it, sorted, qualified and without colon.
	// Accounts.RolesOf returns all of its roles.
	Roles []string
	// Password is the hash in PHC format; empty: no login with a password.
	Password string
	Locked   bool
	Created  time.Time
	Changed  int64 // version of the accounts that changed it last
}

// Token is a credential of a user. It is immutable.
type Token struct {
	ID    string
	Kind  TokenKind
	Owner string // id of a user
	Label string
	// Session is the only session that a token of kind ForSession can use.
	Session string
	// Parent is the id of the token with which this token was created; empty: it was
	// created with another credential. A token is valid only as long as its parent.
	Parent  string
	Hash    [32]byte // of the text of the token
	Narrow  policy.Narrowing
	Created time.Time
	Expires time.Time
}

// TokenKind is the way in which a token is sent. A token that is sent in another way is rejected.
type TokenKind string

// The kinds of tokens.
const (
	ForPrograms TokenKind = ""        // as bearer credential, until it expires
	ForSession  TokenKind = "session" // in a header of its own, while its session is used
	ForBrowser  TokenKind = "browser" // as cookie, after a login with a password
)

// Accounts holds all users, tokens and created roles.
type Accounts struct {
	// Version grows with every change.
	Version int64
	Users   []User
	Tokens  []Token
	Roles   []Role // by name
}

// Change is a change of the accounts for Store.Update to write. Drop holds user ids, DropToken
// token ids and DropRole role names.
type Change struct {
	Put       []User // new and changed users
	Drop      []string
	PutToken  []Token
	DropToken []string
	PutRole   []Role // new roles
	DropRole  []string
}

// Empty reports whether the change writes nothing.
func (c *Change) Empty() bool {
	return len(c.Put)+len(c.Drop)+len(c.PutToken)+len(c.DropToken)+len(c.PutRole)+len(c.DropRole) == 0
}

// Store stores accounts. It is safe for concurrent use.
type Store interface {
	// Accounts returns all accounts. The caller may change the slices. During a concurrent
	// update, users and tokens may be newer than the Version.
	Accounts(ctx context.Context) (Accounts, error)
	// Version returns the version of the stored accounts.
	Version(ctx context.Context) (int64, error)
	// Update calls change with the stored accounts and writes the result as version Version
	// + 1, in one transaction; an empty Change writes nothing. An error of change is
	// returned unchanged, and nothing is written.
	Update(ctx context.Context, change func(Accounts) (Change, error)) error
	// Shared reports whether other hosts change the accounts too.
	Shared() bool
}

// Settings are the identity settings of a configuration. They are immutable.
type Settings struct {
	// Required rejects callers without credentials on every listener.
	Required bool
	// Known are all roles of the configuration, sorted. Other assigned roles are ignored,
	// unless they were created.
	Known []string
	// Intents are the intents that a token may be limited to; nil: any.
	Intents []string
	// Anonymous is the role of callers without credentials, LoggedIn the role of all users,
	// Global are the roles of both.
	Anonymous, LoggedIn string
	Global              []string
	Account             map[string][]string // roles by account type
	// Strong are the account types with a lower limit of failed logins (Locks.StrongMax).
	Strong []string
	Basic  Basic
	// TokenTTL is the default lifetime of a token for programs, MaxTokenTTL the maximum.
	TokenTTL, MaxTokenTTL time.Duration
	Sessions              SessionTokens
	// BrowserTTL is the lifetime of a browser login; 0: browsers cannot log in.
	BrowserTTL time.Duration
	// Certificates maps the names of client certificates to logins or ids of users.
	Certificates map[string]string
	Locks        Locks
	// Issuers are other servers whose tokens identify callers, each with its own URL.
	Issuers []Issuer
}

// Basic are the settings of logins with a password.
type Basic struct {
	Enabled  bool          // a request may carry login and password
	Remember time.Duration // time for which a verified login is accepted without hashing
	MinBytes int           // minimum length of a new password
	// Memory, in KiB, and Time are the parameters of argon2id.
	Memory, Time uint32
}

// SessionTokens are the settings of session tokens.
type SessionTokens struct {
	// Operations are the operations that session tokens may do; empty: session tokens are
	// disabled.
	Operations []string
	// IdleTTL is the lifetime of an unused token. A use extends it, and is written at most
	// once per Refresh.
	IdleTTL, Refresh time.Duration
}

// Locks limit failed logins. Each counter loses one failure per Forgive. After Max
// failures, logins to an account from one network are rejected for Window; account types in
// Strong have StrongMax and StrongWindow instead. MaxDelay bounds the delay of logins to an
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

// RolesOf returns the roles of a user, sorted: those of its account type, its own,
// LoggedIn, and the global ones (AUTH-006). A created role adds the roles that it includes.
// Roles that neither are in Settings.Known nor were created are left out.
func (a *Accounts) RolesOf(s *Settings, u *User) []string {
	return s.known(a.withIncluded(slices.Concat(s.Account[u.Type], u.Roles, []string{s.LoggedIn}, s.Global)), a.Roles...)
}

// Nameless returns the principal of callers without credentials; name is its name and type.
func (s *Settings) Nameless(name string) Principal {
	return Principal{Name: name, Type: name, Roles: s.known(slices.Concat([]string{s.Anonymous}, s.Global))}
}

// known returns the distinct roles, sorted, without those that the configuration does not
// have and that were not created.
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

// Principal is an identified caller.
type Principal struct {
	Name string // as in records: the id of the user, or another unique name
	Type string // account type
	// Login is the login of the user; empty for callers without an account.
	Login string
	// Tenant is the name of its tenant; empty: the host itself.
	Tenant string
	// Token is the id of the token that the caller presented; empty: another credential.
	Token string
	// Session is the only session that the caller may use; empty: all of its own.
	Session string
	Roles   []string
	Narrow  *policy.Narrowing // limits of the token; nil: none
	// Expires is the expiry of the credential of a caller without an account; zero: never.
	Expires time.Time
}

// Caller returns the principal in the form that access rules use.
func (p *Principal) Caller() policy.Caller {
	return policy.Caller{Name: p.Name, Roles: p.Roles, Narrow: p.Narrow, Tenant: p.Tenant}
}
