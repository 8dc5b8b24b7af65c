package identity

import (
	"context"
	"strings"

	"github.com/fermenthq/ferment/sdk/contract"
)

// Standing returns what a principal that was identified before has now: its roles and its
// tenant. ok is false if that cannot be known, because the principal has no account. The
// error is auth/forbidden if its account was locked or deleted, or if the configuration no
// longer has its issuer. Accounts that cannot be read are those that were read last.
func (s *Service) Standing(ctx context.Context, set *Settings, name string) (p Principal, ok bool, err *contract.Error) {
	space, rest, _ := strings.Cut(name, "/")
	switch space {
	case "user":
	case IssuedType:
		if by, _, _ := strings.Cut(rest, "/"); !set.trusts(by) {
			return p, false, contract.Errorf("auth/forbidden", "the issuer %s of the principal %s is not in the configuration any more", by, name)
		}
		return p, false, nil
	default:
		return p, false, nil
	}
	d, failed := s.current(ctx)
	if failed != nil {
		d = s.now.Load()
	}
	switch u := d.byID[name]; {
	case u == nil:
		return p, false, contract.Errorf("auth/forbidden", "the user %s was deleted", name)
	case u.Locked:
		return p, false, contract.Errorf("auth/forbidden", "the user %s is locked", name).
			WithHint("ferment user unlock " + u.Login)
	default:
		return d.principal(set, u), true, nil
	}
}

// trusts reports whether the configuration has an issuer.
func (s *Settings) trusts(issuer string) bool {
	for i := range s.Issuers {
		if s.Issuers[i].Name == issuer {
			return true
		}
	}
	return false
}
