package wire

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin/runner"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// WIRE-001, WIRE-006: common TLS libraries accept the host's certificate in
// both roles, and it reaches the plugin in go-plugin's variable.
func TestSecure(t *testing.T) {
	cfg := ClientConfig()
	require.Error(t, Secure(cfg), "there is nothing yet that could start a process")
	var cmd *exec.Cmd
	cfg.RunnerFunc = func(_ hclog.Logger, c *exec.Cmd, _ string) (runner.Runner, error) { cmd = c; return nil, nil }
	require.NoError(t, Secure(cfg))
	assert.False(t, cfg.AutoMTLS, "go-plugin would replace the certificate")
	_, err := cfg.RunnerFunc(nil, exec.Command(""), "")
	require.NoError(t, err)
	text, found := strings.CutPrefix(cmd.Env[len(cmd.Env)-1], hostCertEnv+"=")
	require.True(t, found)
	block, rest := pem.Decode([]byte(text))
	require.NotNil(t, block)
	assert.Empty(t, rest)
	cert, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	assert.Equal(t, cfg.TLSConfig.Certificates[0].Certificate[0], cert.Raw)
	assert.Equal(t, elliptic.P256(), cert.PublicKey.(*ecdsa.PublicKey).Curve)
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	for _, role := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		_, err = cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: "localhost", KeyUsages: []x509.ExtKeyUsage{role}, CurrentTime: time.Now()})
		require.NoError(t, err)
	}
	other := ClientConfig()
	other.RunnerFunc = cfg.RunnerFunc
	require.NoError(t, Secure(other))
	assert.NotEqual(t, cfg.TLSConfig.Certificates, other.TLSConfig.Certificates, "one per start")
}
