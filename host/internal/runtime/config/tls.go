package config

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/disk"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
)

// MaxTLSFile is the maximum size of a certificate or key file in bytes.
const MaxTLSFile = 1 << 20

// TLS is the certificate of the listeners. The files are read with the
// configuration, so a mismatched pair is rejected before it is used, and a reload
// loads a renewed certificate.
type TLS struct {
	CertFile, KeyFile string // absolute paths
	// Config is the server configuration; it must not be modified.
	Config *tls.Config
	// Print is a hash of the certificate chain and of the authorities for client certificates.
	Print string
}

// tls reads the certificate of the listeners. It returns nil if none is configured, or if it cannot
// be used, which is reported.
func (l *loader) tls(s *decode.Section) *TLS {
	t := &TLS{CertFile: s.Text("cert_file"), KeyFile: s.Text("key_file")}
	if t.CertFile == "" && t.KeyFile == "" {
		return nil
	}
	for here, other := range map[string]string{"cert_file": "key_file", "key_file": "cert_file"} {
		if s.Text(here) != "" && s.Text(other) == "" {
			l.report.Add(diag.Diagnostic{
				Type:    "config/missing",
				Message: fmt.Sprintf("%s in http, tls requires %s", here, other),
				Range:   s.Attrs[here].At,
				Path:    s.PathOf(other),
				Hint:    "set both cert_file and key_file: a listener needs a certificate and its key",
			})
			return nil
		}
	}
	if l.Elsewhere {
		return nil
	}
	pair, err := l.readPair(s, t)
	if err != nil {
		return nil
	}
	print := sha256.New()
	for _, der := range pair.Certificate {
		print.Write(der)
	}
	clients, err := l.clientAuthorities(s, print)
	if err != nil {
		return nil
	}
	t.Print = hex.EncodeToString(print.Sum(nil))
	lowest := uint16(tls.VersionTLS12)
	if s.Text("min_version") == "1.3" {
		lowest = tls.VersionTLS13
	}
	t.Config = &tls.Config{
		Certificates: []tls.Certificate{*pair},
		MinVersion:   lowest,
		NextProtos:   []string{"h2", "http/1.1"},
	}
	if clients != nil {
		t.Config.ClientCAs, t.Config.ClientAuth = clients, tls.VerifyClientCertIfGiven
	}
	return t
}

// clientAuthorities returns the authorities of client certificates; nil if none are configured.
func (l *loader) clientAuthorities(s *decode.Section, print io.Writer) (*x509.CertPool, error) {
	path := s.Text("client_ca_file")
	if path == "" {
		return nil, nil
	}
	text, err := l.readTLSFile(s, "client_ca_file", path, false)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		l.report.Add(diag.Diagnostic{
			Type:    "config/type",
			Message: fmt.Sprintf("client_ca_file in http, tls: file %s has no certificate", diag.Quote(l.named(path))),
			Range:   s.Attrs["client_ca_file"].At,
			Path:    s.PathOf("client_ca_file"),
			Hint:    "name a PEM file with the certificates of the authorities",
		})
		return nil, errReported
	}
	_, _ = print.Write(text) // a hash
	return pool, nil
}

// errReported is returned after a problem has been reported as a diagnostic.
var errReported = errors.New("reported")

// readPair reads the certificate and its key and checks that they match.
func (l *loader) readPair(s *decode.Section, t *TLS) (*tls.Certificate, error) {
	chain, certErr := l.readTLSFile(s, "cert_file", t.CertFile, false)
	key, keyErr := l.readTLSFile(s, "key_file", t.KeyFile, true)
	if certErr != nil || keyErr != nil {
		return nil, errReported
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		// The error of the library does not contain the content of the files.
		l.report.Add(diag.Diagnostic{
			Type: "config/type",
			Message: fmt.Sprintf("certificate %s and key %s cannot be used: %s", diag.Quote(l.named(t.CertFile)),
				diag.Quote(l.named(t.KeyFile)), disk.Cause(err)),
			Range: s.Attrs["cert_file"].At,
			Path:  s.PathOf("cert_file"),
			Hint: "name two PEM files that belong together; the certificate of the host comes first, those that lead to its " +
				"authority follow",
		})
		return nil, errReported
	}
	l.checkTime(s, t, pair.Leaf)
	return &pair, nil
}

// checkTime warns about a certificate that is not valid at the current time. It is
// not an error: the clock may be wrong, and the admin socket works without it.
func (l *loader) checkTime(s *decode.Section, t *TLS, leaf *x509.Certificate) {
	now, what := time.Now(), ""
	switch {
	case now.After(leaf.NotAfter):
		what = "is out of date since " + leaf.NotAfter.UTC().Format(time.DateTime) + " UTC"
	case now.Before(leaf.NotBefore):
		what = "does not hold before " + leaf.NotBefore.UTC().Format(time.DateTime) + " UTC"
	default:
		return
	}
	l.report.Add(diag.Diagnostic{
		Type:     "config/range",
		Severity: diag.SeverityWarning,
		Message:  fmt.Sprintf("certificate %s %s", diag.Quote(l.named(t.CertFile)), what),
		Range:    s.Attrs["cert_file"].At,
		Path:     s.PathOf("cert_file"),
		Hint:     "renew it and reload",
	})
}

// readTLSFile reads one file. It follows symbolic links, because tools that renew certificates use
// them for the current file.
func (l *loader) readTLSFile(s *decode.Section, attr, path string, private bool) ([]byte, error) {
	report := func(typ, message, hint, nearest string) error {
		l.report.Add(diag.Diagnostic{
			Type:    typ,
			Message: attr + " in http, tls: " + message,
			Range:   s.Attrs[attr].At,
			Path:    s.PathOf(attr),
			Hint:    hint,
			Nearest: nearest,
		})
		return errReported
	}
	refuse := func(typ, what, hint string) error {
		return report(typ, fmt.Sprintf("file %s %s", diag.Quote(l.named(path)), what), hint, "")
	}
	unreadable := func(err error) error {
		e := disk.Unreadable(l.named(path), path, err)
		return report("config/missing", e.Message, e.Hint, e.Nearest)
	}
	info, err := disk.Regular(os.Stat(path))
	switch {
	case errors.As(err, new(disk.IrregularError)):
		return nil, refuse("config/type", err.Error(), "name a PEM file")
	case err != nil:
		return nil, unreadable(err)
	case info.Size() > MaxTLSFile:
		return nil, refuse("config/limit", "is larger than "+language.FormatBytes(MaxTLSFile), "name a PEM file with certificates or a key alone")
	case private && info.Mode().Perm()&0o007 != 0:
		return nil, refuse("config/range", "may be read by other users", "chmod o= "+l.named(path))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, unreadable(err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, MaxTLSFile))
	if err != nil {
		return nil, unreadable(err)
	}
	return text, nil
}

// named returns the display name of a path.
func (l *loader) named(path string) string { return disk.PrintedName(l.config.Root, path) }
