package identity

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// freshFor is the maximum age of the accounts in memory if other hosts change them too. A
// token that another host has revoked may be accepted for that long (AUTH-003).
const freshFor = 500 * time.Millisecond

// Service identifies callers and changes accounts. Create it with Open; it is safe for
// concurrent use.
type Service struct {
	store  Store
	random io.Reader
	hashes *hashes
	failed *attempts
	issued Verifier // nil: tokens of issuers are not accepted

	now     atomic.Pointer[directory]
	reading sync.Mutex

	verified remembered
}

// directory holds the accounts in memory with indexes. It is immutable.
type directory struct {
	Accounts
	read   time.Time
	byID   map[string]*User
	logins map[string]*User
	tokens map[string]*Token
	roles  *atomic.Pointer[roleTable]
}

// roleTable holds the roles of all users under one configuration.
type roleTable struct {
	set    *Settings
	byUser map[string][]string
}

// principal returns the principal of a user. Roles are computed once per configuration.
func (d *directory) principal(set *Settings, u *User) Principal {
	t := d.roles.Load()
	if t == nil || t.set != set {
		t = &roleTable{set, make(map[string][]string, len(d.Users))}
		for i := range d.Users {
			t.byUser[d.Users[i].ID] = d.RolesOf(set, &d.Users[i])
		}
		d.roles.Store(t)
	}
	return Principal{Name: u.ID, Type: u.Type, Login: u.Login, Tenant: u.Tenant, Roles: t.byUser[u.ID]}
}

// Open returns a service with the accounts of a store. The error is that of the store, or of the
// source of random numbers.
func Open(ctx context.Context, store Store) (*Service, error) {
	s := &Service{store: store, random: rand.Reader, hashes: newHashes(), failed: newAttempts()}
	s.verified.byKey = map[[sha256.Size]byte]time.Time{}
	if _, err := io.ReadFull(s.random, s.verified.key[:]); err != nil {
		return nil, err
	}
	_, err := s.reload(ctx)
	return s, err
}

// reload reads the accounts from the store and replaces those in memory.
func (s *Service) reload(ctx context.Context) (*directory, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	return s.readAll(ctx, time.Now())
}

// readAll is reload for a caller that holds s.reading; at is a time before the call.
func (s *Service) readAll(ctx context.Context, at time.Time) (*directory, error) {
	all, err := s.store.Accounts(ctx)
	if err != nil {
		return nil, err
	}
	d := &directory{
		Accounts: all,
		read:     at,
		byID:     make(map[string]*User, len(all.Users)),
		logins:   make(map[string]*User, len(all.Users)),
		tokens:   make(map[string]*Token, len(all.Tokens)),
		roles:    &atomic.Pointer[roleTable]{},
	}
	for i := range all.Users {
		u := &all.Users[i]
		d.byID[u.ID], d.logins[u.Login] = u, u
	}
	for i := range all.Tokens {
		d.tokens[all.Tokens[i].ID] = &all.Tokens[i]
	}
	s.now.Store(d)
	return d, nil
}

// current returns the accounts; with a shared store they are at most freshFor old. The error is
// auth/busy if they cannot be read.
func (s *Service) current(ctx context.Context) (*directory, *contract.Error) {
	d := s.now.Load()
	if !s.store.Shared() || time.Since(d.read) < freshFor {
		return d, nil
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	if d = s.now.Load(); time.Since(d.read) < freshFor {
		return d, nil
	}
	at := time.Now()
	version, err := s.store.Version(ctx)
	switch {
	case err == nil && version == d.Version:
		fresh := *d
		fresh.read = at
		s.now.Store(&fresh)
		return &fresh, nil
	case err == nil:
		d, err = s.readAll(ctx, at)
	}
	if err != nil {
		return nil, contract.Errorf("auth/busy", "the accounts cannot be read: %w", err)
	}
	return d, nil
}

// Empty reports whether there are no users.
func (s *Service) Empty() bool { return len(s.now.Load().Users) == 0 }

var (
	errUnknown = contract.Errorf("auth/unauthorized", "the credentials are not valid")
	// errPassword is the same for an unknown login, a wrong password and a locked
	// account.
	errPassword = errUnknown.WithHint("send the login and the password of a user")
)

// Holds reports whether the credential of a principal that was identified before is still
// valid. It returns false if the accounts cannot be read.
func (s *Service) Holds(ctx context.Context, p *Principal) bool {
	if !p.Expires.IsZero() && !time.Now().Before(p.Expires) {
		return false
	}
	if p.Login == "" {
		return true // it has no account that could be locked
	}
	d, err := s.current(ctx)
	if err != nil {
		return false
	}
	u := d.byID[p.Name]
	if u == nil || u.Locked {
		return false
	}
	return p.Token == "" || d.live(p.Token, time.Now())
}

// Login is a login attempt with a password. Network is the network of the caller; failed
// logins are counted by it.
type Login struct{ Name, Password, Network string }

// Recall returns the principal of a login that Password has verified within Basic.Remember,
// without computing a hash; ok is false for any other.
func (s *Service) Recall(ctx context.Context, set *Settings, l Login) (p Principal, ok bool) {
	d, err := s.current(ctx)
	if err != nil {
		return Principal{}, false
	}
	u := d.logins[l.Name]
	if u == nil || u.Locked || !s.verified.has(s.verified.keyOf(l, u), time.Now()) {
		return Principal{}, false
	}
	return d.principal(set, u), true
}

// Password returns the principal of a login with a password. It blocks for the delay after
// failed logins and until a hash slot is free. The error is auth/unauthorized, the same and
// at the same cost for a wrong password, an unknown login and a locked account (AUTH-002);
// auth/locked with the detail :retry-after-ms after too many failures from this network,
// without checking the password (AUTH-020); auth/busy if too many logins wait, ctx ends or
// the accounts cannot be read; or journal/unavailable or runtime/internal if a weak hash of a
// correct password cannot be replaced.
func (s *Service) Password(ctx context.Context, set *Settings, l Login) (Principal, *contract.Error) {
	locked, delay := s.failed.check(l.Name, l.Network, time.Now(), set.Locks)
	if locked > 0 {
		return Principal{}, contract.Errorf("auth/locked", "too many logins failed; the next one is possible in %s", locked.Round(time.Second)).
			WithDetail("retry-after-ms", edn.Int(locked.Milliseconds()))
	}
	if err := pause(ctx, delay); err != nil {
		return Principal{}, err
	}
	d, err := s.current(ctx)
	if err != nil {
		return Principal{}, err
	}
	u, hash, usable := d.logins[l.Name], unknownPHC(set.Basic), false
	if u != nil {
		if stored, ok := readPHC(u.Password); ok {
			hash, usable = &stored, !u.Locked
		}
	}
	var same bool
	err = s.hashes.do(ctx, func() {
		given := normal(l.Password)
		same = len(given) <= maxPassword && hash.verify(given)
	})
	switch {
	case err != nil:
		return Principal{}, err
	case !same || !usable:
		strong := u != nil && slices.Contains(set.Strong, u.Type)
		s.failed.failed(l.Name, l.Network, strong, time.Now(), set.Locks)
		return Principal{}, errPassword
	}
	s.failed.forget(l.Name, l.Network)
	if hash.weaker(set.Basic) {
		if u, err = s.strengthen(ctx, set, u, l.Password); err != nil {
			return Principal{}, err
		}
		d = s.now.Load()
	}
	s.verified.add(s.verified.keyOf(l, u), time.Now().Add(set.Basic.Remember), time.Now())
	return d.principal(set, u), nil
}

// pause waits for the delay of a login; the error is auth/busy if ctx is canceled.
func pause(ctx context.Context, delay time.Duration) *contract.Error {
	if delay <= 0 {
		return nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return contract.Errorf("auth/busy", "login: the caller closed the request during the delay after failed logins")
	}
}

// strengthen replaces the hash of a verified password by one with the parameters of
// the configuration, unless the user was changed meanwhile.
func (s *Service) strengthen(ctx context.Context, set *Settings, u *User, password string) (*User, *contract.Error) {
	hash, err := s.hash(ctx, set, normal(password))
	if err != nil {
		return nil, err
	}
	was := u.Password
	err = s.update(ctx, false, func(a *Accounts) (Change, *contract.Error) {
		for _, now := range a.Users {
			if now.ID == u.ID && now.Password == was {
				now.Password = hash
				return Change{Put: []User{now}}, nil
			}
		}
		return Change{}, nil
	})
	if err != nil {
		return nil, err
	}
	if now := s.now.Load().byID[u.ID]; now != nil {
		u = now
	}
	return u, nil
}

// hash returns the stored form of a password.
func (s *Service) hash(ctx context.Context, set *Settings, password []byte) (text string, err *contract.Error) {
	var fault error
	err = s.hashes.do(ctx, func() {
		var p *phc
		if p, fault = newPHC(password, set.Basic, s.random); fault == nil {
			text = p.String()
		}
	})
	if fault != nil {
		return "", contract.Errorf("runtime/internal", "hash a password: %w", fault)
	}
	return text, err
}

// update changes the accounts and reloads them, or with dry only calls change. Each change also
// deletes expired tokens. The error is that of change, or journal/unavailable.
func (s *Service) update(ctx context.Context, dry bool, change func(*Accounts) (Change, *contract.Error)) *contract.Error {
	decide := func(a Accounts) (Change, error) {
		c, refused := change(&a)
		if refused != nil {
			return Change{}, refused
		}
		if c.Empty() {
			return c, nil
		}
		for i := range c.Put {
			c.Put[i].Changed = a.Version + 1
		}
		for _, t := range a.Tokens {
			keep := keepExpired
			if t.Kind != ForPrograms {
				keep = 0
			}
			if !time.Now().Before(t.Expires.Add(keep)) && !slices.ContainsFunc(c.PutToken, func(p Token) bool { return p.ID == t.ID }) {
				c.DropToken = append(c.DropToken, t.ID)
			}
		}
		return c, nil
	}
	var err error
	if dry {
		var all Accounts
		if all, err = s.store.Accounts(ctx); err == nil {
			_, err = decide(all)
		}
		return asContract(err)
	}
	if err = s.store.Update(ctx, decide); err == nil {
		_, err = s.reload(context.WithoutCancel(ctx))
	}
	return asContract(err)
}

// keepExpired is the time for which an expired token for programs is still listed.
const keepExpired = 30 * 24 * time.Hour

func asContract(err error) *contract.Error {
	var refused *contract.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return refused
	}
	return contract.Errorf("journal/unavailable", "change accounts: %w", err)
}

// remembered holds the recently verified logins, as keyed hashes with a key of this
// process. The hash includes the password hash of the user, so a new password invalidates
// it.
type remembered struct {
	key   [sha256.Size]byte
	mu    sync.Mutex
	byKey map[[sha256.Size]byte]time.Time // expiry
}

const maxRemembered = 1024

func (r *remembered) keyOf(l Login, u *User) (out [sha256.Size]byte) {
	mac := hmac.New(sha256.New, r.key[:])
	for _, part := range []string{u.ID, u.Password, l.Name, l.Password} {
		mac.Write([]byte(part))
		mac.Write([]byte{0})
	}
	mac.Sum(out[:0])
	return out
}

func (r *remembered) has(key [sha256.Size]byte, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Before(r.byKey[key])
}

func (r *remembered) add(key [sha256.Size]byte, until, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, t := range r.byKey {
		if !now.Before(t) || len(r.byKey) >= maxRemembered {
			delete(r.byKey, k)
		}
	}
	r.byKey[key] = until
}
