package config_test

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
)

// AUTH-030: errors in certificate files are reported with the file before a listener
// uses them; no message contains the key.
func TestTLSFiles(t *testing.T) {
	cert, key := configtest.PEMPair(t, time.Hour)
	_, otherKey := configtest.PEMPair(t, time.Hour)
	old, oldKey := configtest.PEMPair(t, -time.Hour)
	both := "http {\n  tls {\n    cert_file = \"pki/cert.pem\"\n    key_file  = \"pki/key.pem\"\n  }\n}\n"
	for name, tc := range map[string]struct {
		text, cert, key string
		mode            os.FileMode
		typ, say        string
	}{
		"fits":                {text: both, cert: cert, key: key},
		"readable by a group": {text: both, cert: cert, key: key, mode: 0o640},
		"no key named":        {text: "http {\n  tls {\n    cert_file = \"pki/cert.pem\"\n  }\n}\n", cert: cert, typ: "config/missing", say: "requires key_file"},
		"no certificate":      {text: "http {\n  tls {\n    key_file = \"pki/key.pem\"\n  }\n}\n", key: key, typ: "config/missing", say: "requires cert_file"},
		"not there":           {text: both, cert: cert, typ: "config/missing", say: "pki/key.pem"},
		"another key":         {text: both, cert: cert, key: otherKey, typ: "config/type", say: "does not match"},
		"no PEM":              {text: both, cert: "hello", key: key, typ: "config/type", say: "PEM"},
		"the key as both":     {text: both, cert: key, key: key, typ: "config/type", say: "pki/cert.pem"},
		"readable by all":     {text: both, cert: cert, key: key, mode: 0o644, typ: "config/range", say: "read by other users"},
		"over":                {text: both, cert: old, key: oldKey, typ: "config/range", say: "out of date"},
		"large":               {text: both, cert: string(make([]byte, config.MaxTLSFile+1)), key: key, typ: "config/limit", say: "1MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := configtest.Lay(t, map[string]string{"ferment.hcl": tc.text})
			require.NoError(t, os.Mkdir(filepath.Join(dir, "pki"), 0o700))
			if tc.mode == 0 {
				tc.mode = 0o600
			}
			for file, text := range map[string]string{"cert.pem": tc.cert, "key.pem": tc.key} {
				if text != "" {
					require.NoError(t, os.WriteFile(filepath.Join(dir, "pki", file), []byte(text), tc.mode))
					require.NoError(t, os.Chmod(filepath.Join(dir, "pki", file), tc.mode))
				}
			}
			c, ds := config.Load(t.Context(), dir, config.Options{Env: configtest.NoEnv})
			if tc.typ == "" {
				require.Empty(t, ds)
				require.NotNil(t, c.HTTP.TLS)
				assert.EqualValues(t, tls.VersionTLS12, c.HTTP.TLS.Config.MinVersion)
				return
			}
			require.Len(t, ds, 1, diag.NewReport(ds, 0, 1, 9).Text(false))
			assert.Equal(t, tc.typ, ds[0].Type)
			assert.Contains(t, ds[0].Message, tc.say)
			assert.NotNil(t, ds[0].Range)
			assert.Equal(t, name == "over", c.HTTP.TLS != nil, "one that is over is still shown")
			assert.NotContains(t, diag.NewReport(ds, 0, 1, 9).Text(false), "PRIVATE")
		})
	}
}

// AUTH-030, HCL-039: a renewed certificate is a change although the attributes are
// unchanged.
func TestTLSRenewed(t *testing.T) {
	text := "http {\n  tls {\n    cert_file   = \"cert.pem\"\n    key_file    = \"key.pem\"\n    min_version = \"1.3\"\n  }\n}\n"
	cert, key := configtest.PEMPair(t, time.Hour)
	dir := configtest.Lay(t, map[string]string{"ferment.hcl": text})
	load := func() *config.Config {
		for file, text := range map[string]string{"cert.pem": cert, "key.pem": key} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
		}
		c, ds := config.Load(t.Context(), dir, config.Options{Env: configtest.NoEnv})
		require.Empty(t, ds)
		return c
	}
	before := load()
	assert.EqualValues(t, tls.VersionTLS13, before.HTTP.TLS.Config.MinVersion)
	assert.True(t, view.Compare(before, load()).Empty())
	cert, key = configtest.PEMPair(t, time.Hour)
	d := view.Compare(before, load())
	require.Len(t, d.Changes, 1)
	assert.Equal(t, []string{"http", "tls", "certificate"}, d.Changes[0].Path)
	assert.Equal(t, view.ActionUpdate, d.Changes[0].Action)
	assert.Empty(t, d.Restart())
}

// AUTH-001, HCL-039: the authorities of client certificates are read with the
// configuration; another file content is a change, and a file without one an error.
func TestClientAuthorities(t *testing.T) {
	text := "http {\n  tls {\n    cert_file      = \"cert.pem\"\n    key_file       = \"key.pem\"\n    client_ca_file = \"ca.pem\"\n  }\n}\n"
	cert, key := configtest.PEMPair(t, time.Hour)
	dir := configtest.Lay(t, map[string]string{"ferment.hcl": text, "cert.pem": cert})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "key.pem"), []byte(key), 0o600))
	load := func(authority string) (*config.Config, []string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "ca.pem"), []byte(authority), 0o600))
		c, ds := config.Load(t.Context(), dir, config.Options{Env: configtest.NoEnv})
		return c, configtest.Types(ds)
	}
	first, problems := load(cert)
	require.Empty(t, problems)
	assert.NotNil(t, first.HTTP.TLS.Config.ClientCAs)
	assert.Equal(t, tls.VerifyClientCertIfGiven, first.HTTP.TLS.Config.ClientAuth)
	other, _ := configtest.PEMPair(t, time.Hour)
	second, problems := load(other)
	require.Empty(t, problems)
	assert.Equal(t, []string{"http", "tls", "certificate"}, view.Compare(first, second).Changes[0].Path)
	_, problems = load("no certificate")
	assert.Equal(t, []string{"config/type"}, problems)
	require.NoError(t, os.Remove(filepath.Join(dir, "ca.pem")))
	_, ds := config.Load(t.Context(), dir, config.Options{Env: configtest.NoEnv})
	assert.Equal(t, []string{"config/missing"}, configtest.Types(ds))
}
