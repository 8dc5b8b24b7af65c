package identity

import (
	"context"
	"crypto/subtle"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Token returns the principal of a token for programs (AUTH-003). The error is
// auth/unauthorized, or auth/busy if the accounts cannot be read. With auth/unauthorized the
// principal has what is known of the rejected token for the audit trail: its id, and its
// owner as Name; this holds for all functions that check a token or a certificate.
func (s *Service) Token(ctx context.Context, set *Settings, text string) (Principal, *contract.Error) {
	_, p, err := s.shown(ctx, set, ForPrograms, text)
	return p, err
}

// shown returns the token of a kind that the caller presented, and its principal. With an
// error the principal has the id of the token, and its Name if the caller knows the token.
func (s *Service) shown(ctx context.Context, set *Settings, kind TokenKind, text string) (*Token, Principal, *contract.Error) {
	id, err := tokenID(text, kind)
	if err != nil {
		return nil, Principal{}, err
	}
	d, err := s.current(ctx)
	if err != nil {
		return nil, Principal{}, err
	}
	var none Token
	t := d.tokens[id]
	if t == nil {
		t = &none
	}
	sum, now := tokenHash(text), time.Now()
	claimed := Principal{Token: id}
	same := subtle.ConstantTimeCompare(sum[:], t.Hash[:]) == 1
	if same {
		claimed.Name = t.Owner
	}
	switch {
	case !same || t == &none || t.Kind != kind || t.Parent != "" && !d.live(t.Parent, now):
		return nil, claimed, contract.Errorf("auth/unauthorized", "the token is not valid: it does not exist or was revoked")
	case !now.Before(t.Expires):
		return nil, claimed, expired(t)
	}
	u := d.byID[t.Owner]
	if u == nil || u.Locked {
		return nil, claimed, errUnknown
	}
	p := d.principal(set, u)
	p.Token, p.Session = t.ID, t.Session
	if n := t.Narrow; n.Roles != nil || n.Operations != nil || n.Intents != nil {
		if len(d.Roles) > 0 && n.Roles != nil {
			n.Roles = sorted(d.withIncluded(n.Roles))
		}
		p.Narrow = &n
	}
	return t, p, nil
}

func expired(t *Token) *contract.Error {
	switch t.Kind {
	case ForSession:
		return contract.Errorf("auth/unauthorized", "the session token has expired, because it was not used").
			WithHint("open the session again with :token? true and another credential")
	case ForBrowser:
		return contract.Errorf("auth/unauthorized", "the login has ended").WithHint("log in again")
	}
	return contract.Errorf("auth/unauthorized", "the token %s has expired", t.ID).
		WithHint("an administrator makes another one with \"ferment token create\"")
}

// live reports whether a token and its parents exist and have not expired.
func (d *directory) live(id string, now time.Time) bool {
	t := d.tokens[id]
	return t != nil && now.Before(t.Expires) && (t.Parent == "" || d.live(t.Parent, now))
}

// SessionToken returns the principal of a session token, and extends the lifetime of the
// token (AUTH-004). It may do those of the configured operations that the credential which
// created it may do. The error is auth/unauthorized, or auth/busy if the accounts cannot be
// read.
func (s *Service) SessionToken(ctx context.Context, set *Settings, text string) (Principal, *contract.Error) {
	if len(set.Sessions.Operations) == 0 {
		return Principal{}, contract.Errorf("auth/unauthorized", "session tokens are disabled: auth.session_token lists no operations")
	}
	t, p, err := s.shown(ctx, set, ForSession, text)
	if err != nil {
		return p, err
	}
	narrow := policy.Narrowing{}
	if p.Narrow != nil {
		narrow = *p.Narrow
	}
	narrow.Session, narrow.Operations = t.Session, []string{}
	for _, o := range set.Sessions.Operations {
		if t.Narrow.Operations == nil || policy.Matches(t.Narrow.Operations, o) {
			narrow.Operations = append(narrow.Operations, o)
		}
	}
	p.Narrow = &narrow
	until := time.Now().UTC().Truncate(time.Millisecond).Add(set.Sessions.IdleTTL)
	if until.Sub(t.Expires) >= set.Sessions.Refresh && until.After(t.Expires) {
		s.extend(ctx, t.ID, until, set.Sessions.Refresh)
	}
	return p, nil
}

// extend sets the expiry of a token to until, unless another request has extended it. A
// failure of the store is ignored: the token then keeps its expiry.
func (s *Service) extend(ctx context.Context, id string, until time.Time, by time.Duration) {
	_ = s.update(context.WithoutCancel(ctx), false, func(a *Accounts) (Change, *contract.Error) {
		i := slices.IndexFunc(a.Tokens, func(t Token) bool { return t.ID == id })
		if i < 0 || until.Sub(a.Tokens[i].Expires) < by {
			return Change{}, nil
		}
		t := a.Tokens[i]
		t.Expires = until
		return Change{PutToken: []Token{t}}, nil
	})
}

// OpenSession creates the token of a session and deletes its earlier one. The caller must own the
// session. It returns the text of the token, of which only a hash is stored, and its expiry. The
// errors include auth/not-configured if session tokens are disabled, auth/forbidden for a caller
// without an account, auth/unauthorized if the user was locked or its credential deleted meanwhile,
// and journal/unavailable.
func (s *Service) OpenSession(ctx context.Context, set *Settings, p *Principal, session string) (string, time.Time, *contract.Error) {
	switch {
	case len(set.Sessions.Operations) == 0:
		return "", time.Time{}, contract.Errorf("auth/not-configured", "session tokens are disabled: auth.session_token lists no operations").
			WithHint("set auth { session_token { operations = [...] } }")
	case p.Login == "":
		return "", time.Time{}, contract.Errorf("auth/forbidden", "session tokens are for users of this host, and the caller is %s", p.Name).
			WithHint("log in as a user of the host")
	}
	t := Token{Kind: ForSession, Owner: p.Name, Session: session}
	text, err := s.issue(ctx, &t, set.Sessions.IdleTTL, func(a *Accounts, c *Change) *contract.Error {
		i := slices.IndexFunc(a.Tokens, func(x Token) bool { return x.ID == p.Token })
		switch {
		case p.Token == "":
		case i < 0:
			return errUnknown // it was revoked meanwhile
		case a.Tokens[i].Kind == ForSession:
			t.Parent, t.Narrow = a.Tokens[i].Parent, a.Tokens[i].Narrow
		default:
			t.Parent, t.Narrow = p.Token, a.Tokens[i].Narrow
		}
		c.DropToken = ofSession(a, session)
		return nil
	})
	return text, t.Expires, err
}

// CloseSession deletes the token of a session, if there is one. The error is journal/unavailable.
func (s *Service) CloseSession(ctx context.Context, session string) *contract.Error {
	return s.update(ctx, false, func(a *Accounts) (Change, *contract.Error) {
		return Change{DropToken: ofSession(a, session)}, nil
	})
}

func ofSession(a *Accounts, session string) (ids []string) {
	for _, t := range a.Tokens {
		if t.Kind == ForSession && t.Session == session {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

// maxBrowsers is the maximum number of browser logins of a user. A further login deletes
// the oldest one.
const maxBrowsers = 32

// LogIn creates a browser token for a user that was identified by password, and returns its text
// and its expiry. The errors include auth/unauthorized if the user was locked meanwhile, and
// journal/unavailable.
func (s *Service) LogIn(ctx context.Context, set *Settings, p *Principal) (string, time.Time, *contract.Error) {
	t := Token{Kind: ForBrowser, Owner: p.Name}
	text, err := s.issue(ctx, &t, set.BrowserTTL, func(a *Accounts, c *Change) *contract.Error {
		var own []Token
		for _, x := range a.Tokens {
			if x.Kind == ForBrowser && x.Owner == p.Name {
				own = append(own, x)
			}
		}
		slices.SortFunc(own, func(a, b Token) int { return strings.Compare(a.ID, b.ID) })
		slices.SortStableFunc(own, func(a, b Token) int { return a.Created.Compare(b.Created) })
		for len(own) >= maxBrowsers {
			c.DropToken, own = append(c.DropToken, own[0].ID), own[1:]
		}
		return nil
	})
	return text, t.Expires, err
}

// Browser returns the principal of a browser token. The error is auth/unauthorized, or
// auth/busy if the accounts cannot be read.
func (s *Service) Browser(ctx context.Context, set *Settings, text string) (Principal, *contract.Error) {
	_, p, err := s.shown(ctx, set, ForBrowser, text)
	return p, err
}

// LogOut deletes the token of a principal. The error is journal/unavailable.
func (s *Service) LogOut(ctx context.Context, p *Principal) *contract.Error {
	return s.update(ctx, false, func(*Accounts) (Change, *contract.Error) {
		return Change{DropToken: []string{p.Token}}, nil
	})
}

// issue fills in and stores a new token and returns its text. also, called with the stored
// accounts, adds to the change or rejects it.
func (s *Service) issue(ctx context.Context, t *Token, life time.Duration, also func(*Accounts, *Change) *contract.Error) (string, *contract.Error) {
	id, text, fault := newToken(s.random, t.Kind)
	if fault != nil {
		return "", contract.Errorf("runtime/internal", "create a token: %w", fault)
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	t.ID, t.Hash, t.Created, t.Expires = id, tokenHash(text), now, now.Add(life)
	err := s.update(ctx, false, func(a *Accounts) (Change, *contract.Error) {
		u, err := a.user(t.Owner)
		if err != nil {
			return Change{}, err
		}
		if u.Locked && t.Kind != ForPrograms {
			return Change{}, errUnknown // it was locked meanwhile
		}
		t.Owner = u.ID
		if slices.ContainsFunc(a.Tokens, func(x Token) bool { return x.ID == id }) {
			return Change{}, contract.Errorf("auth/busy", "the id of the new token exists already").WithHint("try again")
		}
		var c Change
		if err := also(a, &c); err != nil {
			return Change{}, err
		}
		c.PutToken = []Token{*t}
		return c, nil
	})
	if err != nil {
		return "", err
	}
	return text, nil
}

// Certificate returns the principal of a verified client certificate with these names.
// known is false if the configuration maps none of them to a user. The error is
// auth/ambiguous if they map to several users, auth/unauthorized if the user is missing or
// locked, or auth/busy.
func (s *Service) Certificate(ctx context.Context, set *Settings, names []string) (p Principal, known bool, err *contract.Error) {
	var owners []string
	for _, name := range names {
		if owner, ok := set.Certificates[name]; ok && !slices.Contains(owners, owner) {
			owners = append(owners, owner)
		}
	}
	switch len(owners) {
	case 0:
		return Principal{}, false, nil
	case 1:
	default:
		return Principal{}, true, contract.Errorf("auth/ambiguous", "the names of the client certificate are those of %d users: %s",
			len(owners), strings.Join(owners, ", ")).WithHint("map one of them in auth.client_cert.subjects")
	}
	d, err := s.current(ctx)
	if err != nil {
		return Principal{}, true, err
	}
	u, missing := d.user(owners[0])
	if missing != nil || u.Locked {
		return Principal{Name: u.ID}, true, errUnknown.WithHint("send the certificate or the token of another user")
	}
	return d.principal(set, &u), true, nil
}
