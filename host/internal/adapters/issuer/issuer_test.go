package issuer_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fermenthq/ferment/host/internal/adapters/issuer"
	"github.com/fermenthq/ferment/host/internal/adapters/issuer/issuertest"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an issuer and a host that trusts it, with a clock of its own.
type world struct {
	t       *testing.T
	issuer  *issuertest.Issuer
	service *identity.Service
	set     *identity.Settings

	mu  sync.Mutex
	now time.Time
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, issuer: issuertest.Start(t), now: time.Now()}
	var err error
	w.service, err = identity.Open(t.Context(), &identity.Memory{})
	require.NoError(t, err)
	w.service.Trust(issuer.New(w.clock))
	w.set = &identity.Settings{
		Known: policy.BuiltinRoles(), LoggedIn: policy.RoleUser, Anonymous: policy.RoleAnonymous,
		Issuers: []identity.Issuer{{
			Name: "corp", URL: w.issuer.URL, Audience: w.issuer.Audience, Authorities: w.issuer.CA,
			Algorithms: []string{"RS256", "ES256", "EdDSA"}, Skew: time.Minute, Claim: "groups",
			Roles: map[string][]string{"staff": {policy.RoleUser}, "ops": {policy.RoleOperator, policy.RoleUser}},
		}},
	}
	return w
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// try returns the roles of the bearer of a token, or the type of the error.
func (w *world) try(token string) (roles []string, failure string) {
	p, err := w.service.Bearer(w.t.Context(), w.set, token)
	if err != nil {
		return nil, err.Type
	}
	return p.Roles, ""
}

// AUTH-005: the token of a person who has logged in at the issuer identifies it, with
// the roles that its groups map to; a group without an entry gives none.
func TestLoginAtIssuer(t *testing.T) {
	w := newWorld(t)
	p, err := w.service.Bearer(t.Context(), w.set, w.issuer.Login("ann@corp", "ops", "chess club"))
	require.Nil(t, err)
	assert.Equal(t, []string{"oidc/corp/ann@corp", "oidc", "", ""}, []string{p.Name, p.Type, p.Login, p.Token})
	assert.Equal(t, []string{policy.RoleOperator, policy.RoleUser}, p.Roles)
	assert.True(t, w.service.Holds(t.Context(), &p))
	p.Expires = time.Now()
	assert.False(t, w.service.Holds(t.Context(), &p), "its token has expired")

	roles, failure := w.try(w.issuer.Login("bob", "chess club"))
	assert.Empty(t, failure)
	assert.Empty(t, roles, "an unmapped group gives no role, and the role of users is not given either")
	assert.EqualValues(t, 1, w.issuer.Reads.Load(), "the keys are read once")
}

// AUTH-005: what a token must have. Each row changes one thing of a valid one.
func TestTokens(t *testing.T) {
	w := newWorld(t)
	now := w.clock()
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	for name, tc := range map[string]struct {
		change map[string]any
		ok     bool
	}{
		"as it is":                       {nil, true},
		"several audiences":              {map[string]any{"aud": []string{"other", w.issuer.Audience}}, true},
		"wrong audience":                 {map[string]any{"aud": "other"}, false},
		"no audience":                    {map[string]any{"aud": nil}, false},
		"another issuer":                 {map[string]any{"iss": "https://other.example"}, false},
		"expired within the skew":        {map[string]any{"exp": at(-50 * time.Second)}, true},
		"expired":                        {map[string]any{"exp": at(-70 * time.Second)}, false},
		"no expiry":                      {map[string]any{"exp": nil}, false},
		"not valid yet, within the skew": {map[string]any{"nbf": at(50 * time.Second)}, true},
		"not valid yet":                  {map[string]any{"nbf": at(70 * time.Second)}, false},
		"nbf is a text":                  {map[string]any{"nbf": "now"}, false},
		"no subject":                     {map[string]any{"sub": nil}, false},
		"subject with a line end":        {map[string]any{"sub": "ann\n"}, false},
		"long subject":                   {map[string]any{"sub": strings.Repeat("a", 256)}, false},
	} {
		_, failure := w.try(w.issuer.Sign(w.issuer.Claims(now, tc.change)))
		if tc.ok {
			assert.Empty(t, failure, name)
		} else {
			assert.Equal(t, "auth/unauthorized", failure, name)
		}
	}
	assert.EqualValues(t, 1, w.issuer.Reads.Load())
}

// AUTH-005: only signatures of the list, made with a key of the issuer, count: not the
// algorithm none, not an HMAC with the public key, not the key of another.
func TestSignatures(t *testing.T) {
	w := newWorld(t)
	claims := w.issuer.Claims(w.clock(), nil)
	key, id := w.issuer.Key()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	require.NoError(t, err)
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	body, err := json.Marshal(claims)
	require.NoError(t, err)
	encode := base64.RawURLEncoding.EncodeToString
	none := encode([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + encode(body) + "."
	foreign, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	elliptical, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	good := w.issuer.Sign(claims)
	for name, token := range map[string]string{
		"none":                          none,
		"None":                          strings.Replace(none, encode([]byte(`{"alg":"none","typ":"JWT"}`)), encode([]byte(`{"alg":"None"}`)), 1),
		"none with a signature":         none + good[strings.LastIndex(good, ".")+1:],
		"HS256 with the public key":     issuertest.Sign(t, jose.HS256, public, id, claims),
		"HS256 with its DER":            issuertest.Sign(t, jose.HS256, der, id, claims),
		"RS512, which is not listed":    issuertest.Sign(t, jose.RS512, key, id, claims),
		"another key with the same id":  issuertest.Sign(t, jose.RS256, foreign, id, claims),
		"another kind with the same id": issuertest.Sign(t, jose.ES256, elliptical, id, claims),
		"another key without id":        issuertest.Sign(t, jose.RS256, foreign, "", claims),
		"changed payload":               good[:strings.Index(good, ".")+1] + encode([]byte(strings.Replace(string(body), "ann", "bob", 1))) + good[strings.LastIndex(good, "."):],
		"cut":                           good[:len(good)-4],
	} {
		_, failure := w.try(token)
		assert.Equal(t, "auth/unauthorized", failure, name)
	}
	_, failure := w.try(issuertest.Sign(t, jose.RS256, key, "", claims))
	assert.Empty(t, failure, "a token without key id may have any key of the issuer")
	w.set.Issuers[0].Algorithms = []string{"ES256"}
	_, failure = w.try(good)
	assert.Equal(t, "auth/unauthorized", failure, "its algorithm is not listed")
}

// AUTH-005: a new key of the issuer is found at its first token; tokens with unknown
// keys make the host read the keys at most once in 30 s.
func TestRotation(t *testing.T) {
	w := newWorld(t)
	before := w.issuer.Sign(w.issuer.Claims(w.clock(), nil))
	_, failure := w.try(before)
	require.Empty(t, failure)
	w.issuer.Rotate()
	after := w.issuer.Sign(w.issuer.Claims(w.clock(), nil))
	_, failure = w.try(after)
	assert.Equal(t, "auth/unauthorized", failure, "the keys were read a moment ago")
	w.pass(31 * time.Second)
	_, failure = w.try(after)
	assert.Empty(t, failure)
	_, failure = w.try(before)
	assert.Equal(t, "auth/unauthorized", failure, "the issuer has withdrawn its key")
	assert.EqualValues(t, 2, w.issuer.Reads.Load())

	foreign, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	unknown := issuertest.Sign(t, jose.RS256, foreign, "unknown", w.issuer.Claims(w.clock(), nil))
	w.pass(31 * time.Second)
	var flood sync.WaitGroup
	for range 20 {
		flood.Go(func() {
			_, failure := w.try(unknown)
			assert.Equal(t, "auth/unauthorized", failure)
		})
	}
	flood.Wait()
	assert.EqualValues(t, 3, w.issuer.Reads.Load(), "a flood of unknown keys is one read")
}

// AUTH-005: while the issuer is down, known keys serve until their time is over; then
// its callers are told to come again, and never let in. Once it is back they are served.
func TestIssuerDown(t *testing.T) {
	w := newWorld(t)
	life := "max-age=3600"
	w.issuer.CacheControl.Store(&life)
	token := func() string { return w.issuer.Sign(w.issuer.Claims(w.clock(), nil)) }
	w.issuer.Down.Store(true)
	_, failure := w.try(token())
	assert.Equal(t, "auth/busy", failure, "no key is known")
	w.issuer.Down.Store(false)
	_, failure = w.try(token())
	assert.Equal(t, "auth/busy", failure, "it was asked a moment ago")
	w.pass(31 * time.Second)
	_, failure = w.try(token())
	require.Empty(t, failure)

	w.issuer.Down.Store(true)
	for range 59 {
		w.pass(time.Minute)
		_, failure = w.try(token())
		assert.Empty(t, failure)
	}
	asked := w.issuer.Reads.Load()
	w.pass(2 * time.Minute)
	_, failure = w.try(token())
	assert.Equal(t, "auth/busy", failure, "the time of the keys is over")
	_, failure = w.try("not a token")
	assert.Equal(t, "auth/unauthorized", failure)
	assert.LessOrEqual(t, w.issuer.Reads.Load()-asked, int64(1))
	w.issuer.Down.Store(false)
	w.pass(31 * time.Second)
	_, failure = w.try(token())
	assert.Empty(t, failure)
}

// AUTH-005: keys are read again when half of their time is over, and an issuer cannot
// have the host keep them for longer than a day.
func TestLifeOfKeys(t *testing.T) {
	w := newWorld(t)
	life := "public, max-age=31536000"
	w.issuer.CacheControl.Store(&life)
	token := func() string { return w.issuer.Sign(w.issuer.Claims(w.clock(), nil)) }
	for i, after := range []time.Duration{0, 11 * time.Hour, 2 * time.Hour} {
		w.pass(after)
		_, failure := w.try(token())
		assert.Empty(t, failure)
		assert.EqualValues(t, []int64{1, 1, 2}[i], w.issuer.Reads.Load(), "after %s", after)
	}
}

// AUTH-005: a server whose certificate the authorities do not confirm is not asked.
func TestAuthorities(t *testing.T) {
	w := newWorld(t)
	w.set.Issuers[0].Authorities = ""
	_, failure := w.try(w.issuer.Sign(w.issuer.Claims(w.clock(), nil)))
	assert.Equal(t, "auth/busy", failure)
	assert.Zero(t, w.issuer.Reads.Load())
}

// AUTH-005: a claim may be a text, a list, words of a scope, or lie in an object.
func TestClaims(t *testing.T) {
	w := newWorld(t)
	for name, tc := range map[string]struct {
		claim string
		value map[string]any
		roles []string
	}{
		"text":                {"group", map[string]any{"group": "staff"}, []string{policy.RoleUser}},
		"list":                {"group", map[string]any{"group": []any{1, "staff", nil}}, []string{policy.RoleUser}},
		"scope":               {"scope", map[string]any{"scope": "openid staff"}, []string{policy.RoleUser}},
		"text is not words":   {"group", map[string]any{"group": "openid staff"}, nil},
		"nested":              {"realm.roles", map[string]any{"realm": map[string]any{"roles": []string{"ops"}}}, []string{policy.RoleOperator, policy.RoleUser}},
		"name with a dot":     {"https://corp.example/roles", map[string]any{"https://corp.example/roles": []string{"staff"}}, []string{policy.RoleUser}},
		"number":              {"group", map[string]any{"group": 7}, nil},
		"absent":              {"group", nil, nil},
		"role that is a name": {"group", map[string]any{"group": "role/admin"}, nil},
	} {
		w.set.Issuers[0].Claim = tc.claim
		roles, failure := w.try(w.issuer.Sign(w.issuer.Claims(w.clock(), tc.value)))
		assert.Empty(t, failure, name)
		assert.ElementsMatch(t, tc.roles, roles, name)
	}
}

// AUTH-005: the tenant of a caller is that of its token, which must name exactly one.
func TestTenantClaim(t *testing.T) {
	w := newWorld(t)
	w.set.Issuers[0].TenantClaim = "org.unit"
	for name, tc := range map[string]struct {
		value  map[string]any
		tenant string // empty: the token is refused
	}{
		"text":           {map[string]any{"org": map[string]any{"unit": "lab-7"}}, "lab-7"},
		"list of one":    {map[string]any{"org.unit": []string{"lab"}}, "lab"},
		"list of two":    {map[string]any{"org.unit": []string{"lab", "shop"}}, ""},
		"absent":         {nil, ""},
		"number":         {map[string]any{"org.unit": 7}, ""},
		"not a name":     {map[string]any{"org.unit": "Lab 7"}, ""},
		"the host's own": {map[string]any{"org.unit": "host"}, ""},
	} {
		p, err := w.service.Bearer(t.Context(), w.set, w.issuer.Sign(w.issuer.Claims(w.clock(), tc.value)))
		if tc.tenant == "" {
			require.NotNil(t, err, name)
			assert.Equal(t, "auth/unauthorized", err.Type, name)
			continue
		}
		require.Nil(t, err, name)
		assert.Equal(t, tc.tenant, p.Tenant, name)
	}
}
