package wire

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os/exec"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
)

const (
	// hostCertEnv is the variable with the host's certificate.
	hostCertEnv = "PLUGIN_CLIENT_CERT"
	// serverName is the name in the certificates of both sides.
	serverName = "localhost"
	// certLife is longer than any process lives. A certificate is useless
	// without its key, which never leaves the process.
	certLife = 10 * 365 * 24 * time.Hour
	// certEarlier allows the clock to be set back while the processes run, for
	// example on a machine that started with a wrong time.
	certEarlier = certLife
)

// Secure sets the host's half of mutual TLS in cfg. It replaces that of
// go-plugin; the protocol is the same, but the key is on P-256. A TLS library
// without P-521 signatures, such as the one in the common gRPC packages for
// Python, cannot verify go-plugin's certificate, and a P-256 key costs a
// twentieth. Call it last, with RunnerFunc set; cfg can be used for one start.
func Secure(cfg *plugin.ClientConfig) error {
	cert, text, err := newCertificate(time.Now())
	if err != nil {
		return fmt.Errorf("make the certificate of the host: %w", err)
	}
	start := cfg.RunnerFunc
	if start == nil {
		return fmt.Errorf("secure the start of a plugin: the configuration has no RunnerFunc")
	}
	cfg.AutoMTLS = false
	cfg.TLSConfig = &tls.Config{
		Certificates: []tls.Certificate{cert},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		MinVersion:   tls.VersionTLS12,
		ServerName:   serverName,
		// Nothing is trusted until the handshake line brings the plugin's
		// certificate, which go-plugin adds here.
		RootCAs:   x509.NewCertPool(),
		ClientCAs: x509.NewCertPool(),
	}
	cfg.RunnerFunc = func(log hclog.Logger, cmd *exec.Cmd, sockets string) (runner.Runner, error) {
		cmd.Env = append(cmd.Env, hostCertEnv+"="+string(text))
		return start(log, cmd, sockets)
	}
	return nil
}

// newCertificate makes a key, a self-signed certificate for both roles, and the
// certificate as PEM.
func newCertificate(now time.Time) (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		Subject:      pkix.Name{CommonName: serverName},
		DNSNames:     []string{serverName},
		SerialNumber: serial,
		NotBefore:    now.Add(-certEarlier),
		NotAfter:     now.Add(certLife),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageKeyAgreement |
			x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// PluginTLS is the plugin's half of mutual TLS for a program that a host did
// not start. provider returns a configuration for go-plugin that trusts only
// the given host certificate (PEM); raw is the plugin's certificate for the
// handshake line.
func PluginTLS(host []byte) (provider func() (*tls.Config, error), raw []byte, err error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(host) {
		return nil, nil, errors.New("serve the plugin: the host sent no certificate in PEM form")
	}
	cert, _, err := newCertificate(time.Now())
	if err != nil {
		return nil, nil, fmt.Errorf("make the certificate of the plugin: %w", err)
	}
	cfg := &tls.Config{
		Certificates: []tls.Certificate{cert},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    pool,
		RootCAs:      pool,
		MinVersion:   tls.VersionTLS12,
		ServerName:   serverName,
	}
	return func() (*tls.Config, error) { return cfg, nil }, cert.Certificate[0], nil
}
