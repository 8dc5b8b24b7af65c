//go:build slow

package cli_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/adapters/issuer/issuertest"
)

// clientCA writes the certificate of an authority as ca.pem, and returns a client
// certificate of it.
func (w *world) clientCA(subject string) tls.Certificate {
	w.t.Helper()
	make := func(of, by *x509.Certificate, signer *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(w.t, err)
		of.NotBefore, of.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		if signer == nil {
			signer = key
		}
		der, err := x509.CreateCertificate(rand.Reader, of, by, key.Public(), signer)
		require.NoError(w.t, err)
		return der, key
	}
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true}
	der, key := make(authority, authority, nil)
	require.NoError(w.t, os.WriteFile(filepath.Join(w.dir, "ca.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: subject}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	parent, err := x509.ParseCertificate(der)
	require.NoError(w.t, err)
	der, private := make(leaf, parent, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}
}

// AUTH-001, AUTH-004, AUTH-005, AUTH-032, HCL-039: a daemon over TLS knows its callers by
// a token of an issuer, a client certificate, a login cookie and a session token; a reload
// adds an issuer that it can reach, and is refused with one that it cannot.
func TestMeansOfLogin(t *testing.T) {
	t.Parallel()
	corp := issuertest.Start(t)
	w := answering(t, onDisk+`
auth {
  required = true

  basic {
    memory = "8MiB"
    time   = 1
  }

  session_token {
    operations = ["http.v1/act"]
  }

  browser {
    enabled = true
  }

  client_cert {
    subjects = { "CN=robot" = "robot" }
  }
}

http {
  tls {
    cert_file      = "cert.pem"
    key_file       = "key.pem"
    client_ca_file = "ca.pem"
  }
}
`)
	w.certify(1)
	robot := w.clientCA("robot")
	s := w.serve("--config", ".")
	w.data("user", "add", "robot", "--no-password")
	require.Equal(t, 0, w.feed("three small words", "user", "add", "ann").code)
	client := func(certs ...tls.Certificate) *http.Client {
		set := &tls.Config{InsecureSkipVerify: true, Certificates: certs} // httpapi tests the certificate of the server
		return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: set}}
	}
	ask := func(c *http.Client, what, body string, header ...string) answer {
		method, path, _ := strings.Cut(what, " ")
		r, err := http.NewRequestWithContext(t.Context(), method, "https://"+s.address+path, bytes.NewReader([]byte(body)))
		require.NoError(t, err)
		r.Header.Set("Accept", "application/edn")
		r.Header.Set("Content-Type", "application/edn")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		return perform(c, r)
	}
	who := func(a answer) string { return plain(a.value(t).Key("principal")) }
	act := envelopeOf("mine/data", "{}", "")
	assert.Equal(t, "user/1", who(ask(client(robot), "GET /v1/whoami", "")))
	assert.Equal(t, 200, ask(client(robot), "POST /v1/act", act).status)
	assert.Equal(t, 401, ask(client(), "POST /v1/act", act).status)

	in := ask(client(), "POST /v1/auth/login", `{:login "ann" :password "three small words"}`)
	require.Equal(t, 200, in.status, "%s", in.body)
	cookie, _, _ := strings.Cut(in.header.Get("Set-Cookie"), ";")
	asPage := func(what, body string) answer {
		return ask(client(), what, body, "Cookie", cookie, "Origin", "https://"+s.address, "Sec-Fetch-Site", "same-origin")
	}
	opened := asPage("POST /v1/session", `{:action :open :token? true}`)
	require.Equal(t, 200, opened.status, "%s", opened.body)
	token := plain(opened.value(t).Key("result").Key("session/token"))
	assert.Equal(t, 200, ask(client(), "POST /v1/act", act, "X-Session-Token", token).status)

	bearer := "Bearer " + corp.Login("eve", "staff")
	assert.Equal(t, 401, ask(client(), "POST /v1/act", act, "Authorization", bearer).status, "no issuer is configured")
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "corp.pem"), []byte(corp.CA), 0o600))
	with := func(url string) ended {
		w.write("common/issuer.hcl", "auth {\n  oidc \"corp\" {\n    issuer   = \""+url+"\"\n    audience = \""+corp.Audience+
			"\"\n    claim    = \"groups\"\n    roles    = { staff = [\"user\"] }\n    ca_file  = \"../corp.pem\"\n  }\n}\n")
		return w.run("admin", "reload", "--config", ".")
	}
	refused := with("https://127.0.0.1:1/oidc")
	assert.NotEqual(t, 0, refused.code)
	assert.Contains(t, refused.stderr, "corp")
	applied := with(corp.URL)
	require.Equal(t, 0, applied.code, applied.stderr)
	done := ask(client(), "POST /v1/act", act, "Authorization", bearer)
	assert.Equal(t, 200, done.status, "%s", done.body)
	run := done.header.Get("Ferment-Run-Id")
	assert.Contains(t, w.run("runs", "records", run, "--edn", "--config", ".").stdout, `:principal "oidc/corp/eve"`)
	assert.Equal(t, 403, ask(client(), "POST /v1/act", act, "Authorization", "Bearer "+corp.Login("bob", "guests")).status, "an unmapped group has no role")

	s.stop()
	s = w.serve("--config", ".")
	assert.Equal(t, 200, asPage("GET /v1/whoami", "").status, "the login outlives the daemon")
	assert.Equal(t, 200, ask(client(), "POST /v1/act", act, "X-Session-Token", token).status)
	assert.Equal(t, 200, asPage("POST /v1/auth/logout", "").status)
	assert.Equal(t, 401, ask(client(), "POST /v1/act", act, "X-Session-Token", token).status, "it ends with the login that made it")
	s.stop()
}
