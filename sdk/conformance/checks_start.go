package conformance

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/fermenthq/ferment/sdk/internal/pluginv1"
	"github.com/fermenthq/ferment/sdk/launch"
	"github.com/fermenthq/ferment/sdk/wire"
)

func startChecks() []Check {
	return []Check{
		{ID: "core/start/by-hand", Requirements: []string{"START-002"}, Process: true,
			Text: "started without a host, the program prints one sentence and exits with 2",
			run:  startByHand},
		{ID: "core/start/protocol", Requirements: []string{"START-003"}, Process: true,
			Text: "started by a host of another protocol revision, the program offers a revision of its own, or fails with a sentence",
			run:  startProtocol},
		{ID: "core/start/certificate", Requirements: []string{"START-001", "START-004"}, Process: true,
			Text: "the certificate of the plugin is its own authority for both roles, and a peer without that of the host gets no answer",
			run:  startCertificate},
	}
}

// bare runs the program without go-plugin until it ends or the limit is
// reached, and returns its output.
func (b *bench) bare(ctx context.Context, env []string, until func(line string) bool,
) (out string, exit launch.Exit, ended bool, err error) {
	t, ok := b.target.(process)
	if !ok {
		return "", exit, false, &fault{fmt.Errorf("the target does not start processes")}
	}
	p, err := launch.Start(launch.Command{Path: t.command[0], Args: t.command[1:], Env: append(env, t.env...)})
	if err != nil {
		return "", exit, false, &fault{err}
	}
	defer func() { _ = p.Kill() }()
	var mu sync.Mutex
	var text bytes.Buffer
	found, watching := make(chan struct{}), until != nil
	var readers sync.WaitGroup
	for _, stream := range []io.Reader{p.Stdout(), p.Stderr()} {
		readers.Go(func() {
			buf := make([]byte, 4096)
			for {
				n, err := stream.Read(buf)
				mu.Lock()
				if text.Len() < 64<<10 {
					text.Write(buf[:n])
				}
				for line := range strings.Lines(text.String()) {
					if watching && until(strings.TrimSpace(line)) {
						watching = false
						close(found)
					}
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	select {
	case <-p.Done():
		ended = true
		readers.Wait() // the pipes close soon after the end
	case <-found:
	case <-time.After(b.begin):
	case <-ctx.Done():
	}
	mu.Lock()
	defer mu.Unlock()
	watching = false // until's results now belong to the caller
	return text.String(), p.Exit(), ended, nil
}

func startByHand(ctx context.Context, b *bench) error {
	out, exit, ended, err := b.bare(ctx, nil, nil)
	switch {
	case err != nil:
		return err
	case !ended:
		return want("a program that ends when it is started by hand", "it still runs after %s, and has printed %q", b.begin, cut(out))
	case exit.Code != 2 || exit.Signal != 0:
		return want("exit code 2", "%s, and %q", exit, cut(out))
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 1 || lines[0] == "" {
		return want("one sentence that says what the program is", "%d lines: %q", len(lines), cut(out))
	}
	return nil
}

// otherProtocol is a revision that will never exist.
const otherProtocol = "90001"

func startProtocol(ctx context.Context, b *bench) error {
	dir, err := os.MkdirTemp("", "ferment-")
	if err != nil {
		return &fault{err}
	}
	defer func() { _ = os.RemoveAll(dir) }()
	certificate, _, err := selfSigned()
	if err != nil {
		return &fault{err}
	}
	env := []string{
		wire.CookieKey + "=" + wire.CookieValue, "PLUGIN_PROTOCOL_VERSIONS=" + otherProtocol,
		"PLUGIN_UNIX_SOCKET_DIR=" + dir, "PLUGIN_CLIENT_CERT=" + string(certificate),
	}
	var offer launch.Handshake
	out, exit, ended, err := b.bare(ctx, env, func(line string) bool {
		h, ok := launch.ParseHandshake(line)
		if ok {
			offer = h
		}
		return ok
	})
	switch {
	case err != nil:
		return err
	case offer.Version == wire.Protocol:
		return nil // the host reports that it is too new
	case offer != launch.Handshake{}:
		return want(fmt.Sprintf("revision %d in the handshake, or a failure", wire.Protocol), "revision %d", offer.Version)
	case !ended:
		return want("a handshake or an end", "neither after %s, and the output %q", b.begin, cut(out))
	case exit.Clean():
		return want("an exit code that is not 0", "%s, and %q", exit, cut(out))
	case strings.TrimSpace(out) == "":
		return want("a sentence that says which side is older", "no output, %s", exit)
	}
	return nil
}

// selfSigned makes an untrusted certificate, as PEM and for use.
func selfSigned() ([]byte, tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		IsCA:        true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, tls.Certificate{}, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return text, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

func startCertificate(ctx context.Context, b *bench) error {
	in, err := b.start(ctx)
	if err != nil {
		return err
	}
	p, ok := in.(*remote)
	if !ok {
		return &fault{fmt.Errorf("the instance is not a process")}
	}
	address, ok := p.address()
	if !ok {
		return &fault{fmt.Errorf("the address of the plugin is not known")}
	}
	if err := ownAuthority(p.offer.Certificate); err != nil {
		return err
	}
	_, stranger, err := selfSigned()
	if err != nil {
		return &fault{err}
	}
	for who, creds := range map[string]credentials.TransportCredentials{
		"without encryption": insecure.NewCredentials(),
		"without a certificate": credentials.NewTLS(&tls.Config{
			InsecureSkipVerify: true, // a stranger
		}),
		"with another certificate": credentials.NewTLS(&tls.Config{
			InsecureSkipVerify: true, // a stranger
			Certificates:       []tls.Certificate{stranger},
		}),
	} {
		if err := b.strange(ctx, address.String(), creds); err == nil {
			return want("no answer to a peer "+who, "Describe was answered")
		}
	}
	return b.alive(ctx, in, "a peer without the certificate of the host")
}

// ownAuthority checks the certificate of a handshake line. Hosts differ in how much of it
// they check.
func ownAuthority(offered string) error {
	const need = "a certificate for localhost that is its own authority for both roles"
	der, err := base64.RawStdEncoding.DecodeString(offered)
	if err != nil {
		return want("a certificate in base64 without padding", "%v", err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return want("a certificate that can be read", "%v", err)
	}
	switch {
	case !c.BasicConstraintsValid || !c.IsCA:
		return want(need, "the basic constraints are not those of a CA")
	case c.KeyUsage&x509.KeyUsageCertSign == 0:
		return want(need, "the key usage lacks certificate signing")
	case c.KeyUsage&x509.KeyUsageDigitalSignature == 0:
		return want(need, "the key usage lacks digital signature")
	}
	if err := c.CheckSignatureFrom(c); err != nil {
		return want(need, "it is not signed with its own key: %v", err)
	}
	own := x509.NewCertPool()
	own.AddCert(c)
	for _, role := range []struct {
		name  string
		usage x509.ExtKeyUsage
	}{{"server", x509.ExtKeyUsageServerAuth}, {"client", x509.ExtKeyUsageClientAuth}} {
		options := x509.VerifyOptions{Roots: own, DNSName: "localhost", KeyUsages: []x509.ExtKeyUsage{role.usage}}
		if _, err := c.Verify(options); err != nil {
			return want(need, "as a %s: %v", role.name, err)
		}
	}
	return nil
}

// strange calls Describe at an address with creds.
func (b *bench) strange(ctx context.Context, address string, creds credentials.TransportCredentials) error {
	ctx, cancel := context.WithTimeout(ctx, b.soon)
	defer cancel()
	conn, err := grpc.NewClient("unix:"+address, append(wire.DialOptions(), grpc.WithTransportCredentials(creds))...)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = pluginv1.NewLifecycleClient(conn).Describe(ctx, &pluginv1.DescribeRequest{})
	return err
}
