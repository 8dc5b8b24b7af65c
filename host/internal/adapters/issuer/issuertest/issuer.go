package issuertest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/oauth2-proxy/mockoidc"
	"github.com/stretchr/testify/require"
)

// Issuer is a running OpenID Connect issuer for tests.
type Issuer struct {
	t  testing.TB
	on *mockoidc.MockOIDC
	// URL and Audience are the issuer and the audience of its tokens. CA is the certificate of its
	// authority in PEM.
	URL, Audience, CA string
	// Reads counts the requests for its keys. While Down is set, all requests fail. CacheControl is
	// the header of that name in its responses.
	Reads        atomic.Int64
	Down         atomic.Bool
	CacheControl atomic.Pointer[string]

	client *http.Client
}

// Start runs an issuer until the end of the test.
func Start(t testing.TB) *Issuer {
	t.Helper()
	server, err := mockoidc.NewServer(nil)
	require.NoError(t, err)
	server.Keypair, err = mockoidc.RandomKeypair(2048)
	require.NoError(t, err)
	x := &Issuer{t: t, on: server}
	require.NoError(t, server.AddMiddleware(x.middleware))
	cert, ca := certificate(t)
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	set := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	require.NoError(t, server.Start(tls.NewListener(plain, set), set))
	t.Cleanup(func() { _ = server.Shutdown() })
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM([]byte(ca)))
	x.URL, x.Audience, x.CA = server.Issuer(), server.ClientID, ca
	x.client = &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return x
}

func (x *Issuer) middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == mockoidc.JWKSEndpoint {
			x.Reads.Add(1)
		}
		if x.Down.Load() {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		if header := x.CacheControl.Load(); header != nil {
			w = cached{w, *header}
		}
		next.ServeHTTP(w, r)
	})
}

// cached is a ResponseWriter that replaces the header Cache-Control of its handler.
type cached struct {
	http.ResponseWriter
	header string
}

func (c cached) WriteHeader(status int) {
	c.Header().Set("Cache-Control", c.header)
	c.ResponseWriter.WriteHeader(status)
}

func (c cached) Write(b []byte) (int, error) {
	c.Header().Set("Cache-Control", c.header)
	return c.ResponseWriter.Write(b)
}

// Rotate replaces the key of the issuer.
func (x *Issuer) Rotate() {
	x.t.Helper()
	pair, err := mockoidc.RandomKeypair(2048)
	require.NoError(x.t, err)
	x.on.Keypair = pair
}

// Key returns the current signing key of the issuer and its id.
func (x *Issuer) Key() (key crypto.Signer, id string) {
	x.t.Helper()
	id, err := x.on.Keypair.KeyID()
	require.NoError(x.t, err)
	return x.on.Keypair.PrivateKey, id
}

// Login performs the authorization code flow for a subject, as a client of the issuer does, and
// returns the ID token.
func (x *Issuer) Login(subject string, groups ...string) string {
	x.t.Helper()
	x.on.QueueUser(&mockoidc.MockUser{Subject: subject, Groups: groups})
	ask := url.Values{
		"scope": {"openid groups"}, "state": {"s"}, "client_id": {x.Audience}, "response_type": {"code"},
		"redirect_uri": {"https://program.example/back"}, "nonce": {"n"},
	}
	resp, err := x.client.Get(x.on.AuthorizationEndpoint() + "?" + ask.Encode())
	require.NoError(x.t, err)
	_ = resp.Body.Close()
	back, err := resp.Location()
	require.NoError(x.t, err, resp.Status)
	resp, err = x.client.PostForm(x.on.TokenEndpoint(), url.Values{
		"client_id": {x.Audience}, "client_secret": {x.on.ClientSecret}, "grant_type": {"authorization_code"},
		"code": {back.Query().Get("code")},
	})
	require.NoError(x.t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(x.t, err)
	var got struct {
		Token string `json:"id_token"`
	}
	require.NoError(x.t, json.Unmarshal(body, &got), "%s", body)
	return got.Token
}

// Claims returns the claims of a token that is valid at now, with changes; a nil value removes a
// claim.
func (x *Issuer) Claims(now time.Time, change map[string]any) map[string]any {
	out := map[string]any{
		"iss": x.URL, "aud": x.Audience, "sub": "ann", "iat": now.Unix(), "exp": now.Add(10 * time.Minute).Unix(),
		"groups": []string{"staff"},
	}
	maps.Copy(out, change)
	maps.DeleteFunc(out, func(_ string, v any) bool { return v == nil })
	return out
}

// Sign returns a token of the issuer with claims.
func (x *Issuer) Sign(claims map[string]any) string {
	x.t.Helper()
	key, id := x.Key()
	return Sign(x.t, jose.RS256, key, id, claims)
}

// Sign returns a token with claims, signed with the given key, which need not be that of the
// issuer.
func Sign(t testing.TB, algorithm jose.SignatureAlgorithm, key any, id string, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil)
	require.NoError(t, err)
	body, err := json.Marshal(claims)
	require.NoError(t, err)
	signed, err := signer.Sign(body)
	require.NoError(t, err)
	text, err := signed.CompactSerialize()
	require.NoError(t, err)
	return text
}

// certificate returns a self-signed certificate for 127.0.0.1, and its PEM.
func certificate(t testing.TB) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
