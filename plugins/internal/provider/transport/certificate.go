package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
)

func isCertificate(err error) bool {
	var verification *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	return errors.As(err, &verification) || errors.As(err, &unknown) || errors.As(err, &host)
}

// isPlain reports whether the server spoke first, or answered a hello, without
// TLS.
func isPlain(err error) bool {
	var record tls.RecordHeaderError
	return errors.As(err, &record) || errors.Is(err, http.ErrSchemeMismatch)
}
