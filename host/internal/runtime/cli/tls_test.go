package cli_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// certify writes a certificate with a serial number and its key.
func (w *world) certify(serial int64) {
	w.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(w.t, err)
	of := &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: "localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
	}
	cert, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	require.NoError(w.t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(w.t, err)
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: cert},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: private},
	} {
		require.NoError(w.t, os.WriteFile(filepath.Join(w.dir, name), pem.EncodeToMemory(block), 0o600))
	}
}

// AUTH-030: a renewed certificate is used after SIGHUP. httpapi tests TLS
// itself.
func TestCertificateReload(t *testing.T) {
	t.Parallel()
	w := answering(t, "\nhttp {\n  tls {\n    cert_file = \"cert.pem\"\n    key_file  = \"key.pem\"\n  }\n}\n")
	w.certify(1)
	s := w.serve()
	serial := func() int64 {
		conn, err := tls.Dial("tcp", s.address, &tls.Config{InsecureSkipVerify: true}) // only the serial number matters
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	assert.EqualValues(t, 1, serial())
	w.certify(2)
	assert.EqualValues(t, 1, serial(), "nothing was reloaded yet")
	s.signal(syscall.SIGHUP)
	require.Eventually(t, func() bool { return serial() == 2 }, 20*time.Second, 5*time.Millisecond)
	s.stop()
}
