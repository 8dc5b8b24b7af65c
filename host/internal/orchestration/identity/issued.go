package identity

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
)

// IssuedType is the account type of callers with a token of an Issuer.
const IssuedType = "oidc"

// Issuer is a server whose tokens identify callers (AUTH-005). It is immutable.
type Issuer struct {
	Name          string // of its block
	URL, Audience string
	Algorithms    []string
	// Skew is the tolerated difference between the clocks.
	Skew time.Duration
	// Authorities are the trusted CA certificates of the server, in PEM; empty: those of
	// the system.
	Authorities string
	// Claim is the name of the claim whose values Roles maps to roles. A dot leads into an
	// object.
	Claim string
	Roles map[string][]string // by value of the claim
	// TenantClaim is the name of the claim that holds the tenant of a caller. A token
	// without it is rejected. Empty: callers belong to the host itself.
	TenantClaim string
}

// Issued is the content of a verified token of an issuer.
type Issued struct {
	Subject string
	Expires time.Time
	Claims  map[string]any
}

// Verifier checks tokens of issuers.
type Verifier interface {
	// Verify checks signature, audience and times of a token. The error is
	// auth/unauthorized, or auth/busy if the keys of the issuer cannot be fetched.
	Verify(ctx context.Context, by *Issuer, text string) (Issued, *contract.Error)
}

// Trust sets the verifier of tokens of issuers. It must be called before the first
// request.
func (s *Service) Trust(v Verifier) { s.issued = v }

// Bearer returns the principal of a bearer credential: a token of a user, or one of an
// issuer of the configuration. The error is auth/unauthorized, or auth/busy if the accounts
// or the keys of the issuer cannot be read.
func (s *Service) Bearer(ctx context.Context, set *Settings, text string) (Principal, *contract.Error) {
	if len(set.Issuers) == 0 || s.issued == nil || IsToken(text) {
		return s.Token(ctx, set, text)
	}
	claimed, ok := claimedIssuer(text)
	if !ok {
		return s.Token(ctx, set, text) // its error describes the form of a token
	}
	i := slices.IndexFunc(set.Issuers, func(by Issuer) bool { return by.URL == claimed })
	if i < 0 {
		return Principal{}, contract.Errorf("auth/unauthorized", "the token names the issuer %.200q, which this host does not trust", claimed).
			WithHint("use a token of a configured issuer, or add a block auth { oidc \"NAME\" { ... } } to ferment.hcl")
	}
	by := &set.Issuers[i]
	token, err := s.issued.Verify(ctx, by, text)
	if err != nil {
		return Principal{}, err
	}
	if !validSubject(token.Subject) {
		return Principal{}, contract.Errorf("auth/unauthorized", "the token of the issuer %s has no subject that names its owner: expected 1 to %d visible ASCII characters in the claim sub",
			by.Name, maxSubject)
	}
	tenant, err := by.tenantOf(token.Claims)
	if err != nil {
		return Principal{}, err
	}
	return Principal{
		Tenant:  tenant,
		Name:    IssuedType + "/" + by.Name + "/" + token.Subject,
		Type:    IssuedType,
		Roles:   set.known(slices.Concat(by.rolesOf(token.Claims), set.Global)),
		Expires: token.Expires,
	}, nil
}

const maxSubject = 255

func validSubject(text string) bool {
	return text != "" && len(text) <= maxSubject && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// claimedIssuer returns the issuer that a token names. The token is not verified.
func claimedIssuer(text string) (string, bool) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return "", false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Issuer string `json:"iss"`
	}
	if err != nil || json.Unmarshal(payload, &claims) != nil {
		return "", false
	}
	return claims.Issuer, true
}

// rolesOf returns the roles for the values of the claim. A value without an entry in Roles
// gives none.
func (i *Issuer) rolesOf(claims map[string]any) (roles []string) {
	for _, value := range valuesOf(claims, i.Claim) {
		roles = append(roles, i.Roles[value]...)
	}
	return roles
}

// tenantOf returns the tenant of a token, "" if the issuer has no TenantClaim.
func (i *Issuer) tenantOf(claims map[string]any) (string, *contract.Error) {
	if i.TenantClaim == "" {
		return "", nil
	}
	if all := valuesOf(claims, i.TenantClaim); len(all) == 1 && validTenant(all[0]) {
		return all[0], nil
	}
	return "", contract.Errorf("auth/unauthorized", "the token of the issuer %s does not name one tenant of its owner in the claim %q: expected %s",
		i.Name, i.TenantClaim, tenantForm)
}

// valuesOf returns the string values of a claim: its own, or those of its list. The claims
// scope and scp are split at spaces.
func valuesOf(claims map[string]any, name string) []string {
	value, found := claims[name]
	if !found {
		first, rest, nested := strings.Cut(name, ".")
		if inner, ok := claims[first].(map[string]any); ok && nested {
			return valuesOf(inner, rest)
		}
		return nil
	}
	switch v := value.(type) {
	case string:
		if name == "scope" || name == "scp" {
			return strings.Fields(v)
		}
		return []string{v}
	case []any:
		var out []string
		for _, member := range v {
			if text, ok := member.(string); ok {
				out = append(out, text)
			}
		}
		return out
	}
	return nil
}
