package httpapi_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/edn"
)

// certified returns a certificate for this machine with a serial number, and a
// pool that trusts it.
func certified(t testing.TB, number int64) (*tls.Config, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	of := &x509.Certificate{
		SerialNumber: big.NewInt(number), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}},
		MinVersion:   tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
	}, pool
}

// secure makes a request over TLS and returns the serial number of the
// certificate.
func (w *world) secure(pool *x509.CertPool, http2 bool, method, path string) (*http.Response, int64, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ForceAttemptHTTP2: http2, TLSClientConfig: &tls.Config{RootCAs: pool}}}
	r, err := http.NewRequest(method, "https://"+w.address+path, nil)
	require.NoError(w.t, err)
	resp, err := client.Do(r)
	if err != nil {
		return nil, 0, err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp, resp.TLS.PeerCertificates[0].SerialNumber.Int64(), nil
}

// AUTH-030, HTTP-010: listeners support TLS and HTTP/2; a renewed certificate
// applies to the next connection; the admin socket is unaffected.
func TestTLS(t *testing.T) {
	first, pool := certified(t, 1)
	w := newWorld(t, func(s *httpapi.Settings) { s.TLS = first })
	for http2, want := range map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"} {
		resp, number, err := w.secure(pool, http2, "GET", "/health")
		require.NoError(t, err)
		assert.Equal(t, 200, resp.StatusCode)
		assert.Equal(t, want, resp.Proto)
		assert.EqualValues(t, 1, number)
	}
	assert.Equal(t, 200, w.operator("GET /health", "").status)

	second, newPool := certified(t, 2)
	w.tune(func(s *httpapi.Settings) { s.TLS = second })
	_, number, err := w.secure(newPool, true, "GET", "/health")
	require.NoError(t, err)
	assert.EqualValues(t, 2, number)
	_, _, err = w.secure(pool, false, "GET", "/health")
	assert.Error(t, err, "the old one is not shown any more")

	// Disabled again, as by a reload.
	w.tune(func(s *httpapi.Settings) { s.TLS = nil })
	assert.Equal(t, 200, w.call("GET /health", "").status)
}

// AUTH-030: old TLS versions are rejected; plain HTTP gets a typed error; a
// silent client is disconnected.
func TestTLSRefuses(t *testing.T) {
	config, pool := certified(t, 1)
	w := newWorld(t, func(s *httpapi.Settings) { s.TLS = config; s.Limits.HeaderRead = 2 * time.Second })
	_, err := tls.Dial("tcp", w.address, &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	require.ErrorContains(t, err, "protocol version")
	a, err := w.raw("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	assert.Equal(t, 400, a.status)
	assert.Equal(t, "http/bad-encoding", a.failure(t))
	assert.Contains(t, string(a.body), "https://")
	conn, err := net.Dial("tcp", w.address)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	_, err = conn.Read(make([]byte, 1))
	var timeout net.Error
	assert.False(t, errors.As(err, &timeout) && timeout.Timeout(), "a handshake that does not begin holds no connection")
}

// AUTH-033 over HTTP/2: body size and time limits apply, and a caller that
// closes its connection cancels its act.
func TestTLSLimits(t *testing.T) {
	config, pool := certified(t, 1)
	w := newWorld(t, func(s *httpapi.Settings) {
		s.TLS = config
		s.Limits.ActBody = 4096
		s.Limits.BodyRead = 400 * time.Millisecond
	})
	w.exec.On("t/any", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`)})
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer transport.CloseIdleConnections()
	w.client = &http.Client{Transport: transport}
	post := func(body io.Reader) answer {
		r, err := http.NewRequest("POST", "https://"+w.address+"/v1/act", body)
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		resp, err := w.client.Do(r)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		assert.Equal(t, "HTTP/2.0", resp.Proto)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return answer{status: resp.StatusCode, header: resp.Header, body: text}
	}
	slow, feed := io.Pipe()
	go func() { _, _ = feed.Write([]byte(`{"proto":1`)) }()
	a := post(slow)
	_ = feed.Close()
	assert.Equal(t, "http/request-timeout", a.failure(t))
	w.tune(func(s *httpapi.Settings) { s.Limits.BodyRead = 20 * time.Second }) // too long, not too slow
	a = post(io.LimitReader(endless{}, 1<<20))
	assert.Equal(t, "http/too-large", a.failure(t))
}

// endless is a text without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// clientCertificate returns a certificate of a program, confirmed by an authority.
func clientCertificate(t testing.TB, authority *tls.Config, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	of := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "robot", Organization: []string{"lab"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	change(of)
	by := authority.Certificates[0]
	der, err := x509.CreateCertificate(rand.Reader, of, by.Leaf, key.Public(), by.PrivateKey)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// AUTH-001: a client certificate of the authorities of the configuration identifies the
// user that its subject or an alternative name is mapped to, and no other.
func TestClientCertificates(t *testing.T) {
	server, pool := certified(t, 1)
	authority, authorities := certified(t, 2)
	foreign, _ := certified(t, 3)
	server.ClientCAs, server.ClientAuth = authorities, tls.VerifyClientCertIfGiven
	w := newWorld(t, strict, func(s *httpapi.Settings) {
		s.TLS = server
		s.Identity.Certificates = map[string]string{
			"CN=robot,O=lab": "robot", "uri:spiffe://lab/robot": "robot", "dns:ann.lab": "ann", "email:gone@lab": "gone",
		}
	})
	robot := w.user("robot")
	w.user("ann")
	token, _ := w.token("ann", policy.Narrowing{})
	ask := func(cert tls.Certificate, more ...string) (answer, error) {
		set := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
		set.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: set}}
		r, err := http.NewRequest("GET", "https://"+w.address+"/v1/whoami", http.NoBody)
		require.NoError(t, err)
		for i := 0; i < len(more); i += 2 {
			r.Header.Set(more[i], more[i+1])
		}
		resp, err := client.Do(r)
		if err != nil {
			return answer{}, err
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		return answer{status: resp.StatusCode, header: resp.Header, body: body}, err
	}
	another := func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: "other"} }
	spiffe, err := url.Parse("spiffe://lab/robot")
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		by      *tls.Config
		change  func(*x509.Certificate)
		headers []string
		status  int // 0: the handshake fails
	}{
		"subject":             {authority, func(*x509.Certificate) {}, nil, 200},
		"uri":                 {authority, func(c *x509.Certificate) { another(c); c.URIs = []*url.URL{spiffe} }, nil, 200},
		"subject and uri":     {authority, func(c *x509.Certificate) { c.URIs = []*url.URL{spiffe} }, nil, 200},
		"names of two users":  {authority, func(c *x509.Certificate) { c.DNSNames = []string{"ann.lab"} }, nil, 400},
		"not mapped":          {authority, another, nil, 401},
		"user that is gone":   {authority, func(c *x509.Certificate) { another(c); c.EmailAddresses = []string{"gone@lab"} }, nil, 401},
		"not mapped, token":   {authority, another, []string{"Authorization", token}, 200},
		"mapped, token":       {authority, func(*x509.Certificate) {}, []string{"Authorization", token}, 400},
		"another authority":   {foreign, func(*x509.Certificate) {}, nil, 0},
		"expired":             {authority, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, nil, 0},
		"that of a server":    {authority, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }, nil, 0},
		"no certificate":      {nil, nil, nil, 401},
		"no certificate, but": {nil, nil, []string{"Authorization", token}, 200},
	} {
		var cert tls.Certificate
		if tc.by != nil {
			cert = clientCertificate(t, tc.by, tc.change)
		}
		a, err := ask(cert, tc.headers...)
		if tc.status == 0 {
			assert.Error(t, err, name)
			continue
		}
		require.NoError(t, err, name)
		assert.Equal(t, tc.status, a.status, "%s: %s", name, a.body)
	}
	cert := clientCertificate(t, authority, func(*x509.Certificate) {})
	a, err := ask(cert)
	require.NoError(t, err)
	assert.Equal(t, robot.ID, text(a.value(t), "principal"))
	_, refused := w.users.Lock(t.Context(), w.Settings().Identity, "robot", true, false)
	require.Nil(t, refused)
	a, err = ask(cert)
	require.NoError(t, err)
	assert.Equal(t, 401, a.status, "a lock counts for certificates too")
	denials := w.denied()
	assert.Equal(t, robot.ID, denials[len(denials)-1].Principal)
	assert.Contains(t, denials[len(denials)-1].Message, "CN=robot,O=lab")
}

// AUTH-001, AUTH-030: a reload that takes an authority away counts for connections that
// are open.
func TestAuthorityTakenAway(t *testing.T) {
	server, pool := certified(t, 1)
	authority, authorities := certified(t, 2)
	_, others := certified(t, 3)
	server.ClientCAs, server.ClientAuth = authorities, tls.VerifyClientCertIfGiven
	w := newWorld(t, strict, func(s *httpapi.Settings) {
		s.TLS, s.Identity.Certificates = server, map[string]string{"CN=robot,O=lab": "robot"}
	})
	w.user("robot")
	transport := &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: pool, MinVersion: tls.VersionTLS12,
		Certificates: []tls.Certificate{clientCertificate(t, authority, func(*x509.Certificate) {})},
	}}
	defer transport.CloseIdleConnections()
	ask := func() int {
		resp, err := (&http.Client{Transport: transport}).Get("https://" + w.address + "/v1/whoami")
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	require.Equal(t, 200, ask())
	w.tune(func(s *httpapi.Settings) {
		s.TLS = server.Clone()
		s.TLS.ClientCAs = others
	})
	assert.Equal(t, 401, ask())
}
