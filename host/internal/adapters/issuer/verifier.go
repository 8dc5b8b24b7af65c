package issuer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/sdk/contract"
)

// maxSources is the maximum number of issuers whose keys are cached. A reload may replace issuers,
// so there can be more than in the configuration.
const maxSources = 64

// Verifier verifies tokens of OpenID Connect issuers and caches their keys. It is safe for
// concurrent use.
type Verifier struct {
	now func() time.Time

	mu      sync.Mutex
	sources map[place]*source
}

var _ identity.Verifier = (*Verifier)(nil)

// place is the part of an issuer's settings on which its keys depend.
type place struct{ url, authorities string }

// New returns a verifier without cached keys. now is the clock.
func New(now func() time.Time) *Verifier {
	return &Verifier{now: now, sources: map[place]*source{}}
}

func (v *Verifier) source(by *identity.Issuer) *source {
	at := place{by.URL, by.Authorities}
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.sources[at]
	if s == nil {
		if len(v.sources) >= maxSources {
			clear(v.sources)
		}
		s = &source{place: at, now: v.now}
		s.known.Store(&known{})
		v.sources[at] = s
	}
	return s
}

// Reach reads the keys of an issuer, unless valid keys are cached. It blocks for at most
// readWithin.
func (v *Verifier) Reach(ctx context.Context, by *identity.Issuer) error {
	s := v.source(by)
	s.reading.Lock()
	defer s.reading.Unlock()
	if s.known.Load().usable(v.now()) {
		return nil
	}
	return s.read(ctx)
}

// Verify implements identity.Verifier.
func (v *Verifier) Verify(ctx context.Context, by *identity.Issuer, text string) (identity.Issued, *contract.Error) {
	keys := &keySet{source: v.source(by), algorithms: by.Algorithms}
	checker := oidc.NewVerifier(by.URL, keys, &oidc.Config{
		ClientID:             by.Audience,
		SupportedSigningAlgs: by.Algorithms,
		SkipExpiryCheck:      true, // inTime checks the times, with the configured skew
	})
	token, err := checker.Verify(ctx, text)
	if keys.unavailable != nil {
		return identity.Issued{}, keys.unavailable
	}
	if err != nil {
		return identity.Issued{}, invalid(by, "%s", reason(err, keys.failed))
	}
	out := identity.Issued{Subject: token.Subject, Expires: token.Expiry, Claims: map[string]any{}}
	if err := token.Claims(&out.Claims); err != nil {
		return identity.Issued{}, invalid(by, "its claims are not a JSON object")
	}
	if late := inTime(token, out.Claims, v.now(), by.Skew); late != "" {
		return identity.Issued{}, invalid(by, "%s", late)
	}
	out.Expires = out.Expires.Add(by.Skew)
	return out, nil
}

// invalid returns the auth/unauthorized error for a token that is not valid, or not valid now.
func invalid(by *identity.Issuer, format string, args ...any) *contract.Error {
	return contract.Errorf("auth/unauthorized", "the token of the issuer %s is not valid: %s", by.Name, fmt.Sprintf(format, args...)).
		WithHint("get a new token from " + by.URL + " for the audience " + by.Audience)
}

// reason returns the reason why a token is not valid. The text of the library may quote values of
// the token, which the caller has sent.
func reason(err, signature error) string {
	if signature != nil {
		return signature.Error()
	}
	return err.Error()
}

// inTime returns the reason why a token is not valid at now; empty if it is valid. skew is the
// permitted difference of the clocks of both hosts.
func inTime(token *oidc.IDToken, claims map[string]any, now time.Time, skew time.Duration) string {
	if token.Expiry.IsZero() {
		return "it has no expiry"
	}
	if !now.Before(token.Expiry.Add(skew)) {
		return "it has expired at " + token.Expiry.UTC().Format(time.RFC3339)
	}
	switch from := claims["nbf"].(type) {
	case nil:
	case float64:
		if at := time.Unix(int64(from), 0); now.Add(skew).Before(at) {
			return "it is not valid before " + at.UTC().Format(time.RFC3339)
		}
	default:
		return "its claim nbf is not a number"
	}
	return ""
}

// keySet implements oidc.KeySet for one token.
type keySet struct {
	source      *source
	algorithms  []string
	unavailable *contract.Error // set if the keys cannot be read
	failed      error           // set if the signature is wrong
}

var errSignature = errors.New("its signature is wrong, or its key is not one of the issuer")

// VerifySignature implements oidc.KeySet.
func (k *keySet) VerifySignature(ctx context.Context, text string) ([]byte, error) {
	k.failed = errSignature
	token, err := jose.ParseSignedCompact(text, algorithms(k.algorithms))
	if err != nil || len(token.Signatures) != 1 {
		return nil, errSignature
	}
	head := token.Signatures[0].Header
	keys, unavailable := k.source.find(ctx, head.KeyID)
	if unavailable != nil {
		k.unavailable = unavailable
		return nil, unavailable
	}
	for i := range keys {
		if keys[i].Algorithm != "" && keys[i].Algorithm != head.Algorithm {
			continue
		}
		if payload, err := token.Verify(&keys[i]); err == nil {
			k.failed = nil
			return payload, nil
		}
	}
	return nil, errSignature
}

func algorithms(names []string) []jose.SignatureAlgorithm {
	out := make([]jose.SignatureAlgorithm, len(names))
	for i, name := range names {
		out[i] = jose.SignatureAlgorithm(name)
	}
	return out
}
