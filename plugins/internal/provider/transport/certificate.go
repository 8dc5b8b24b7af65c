package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
)

func isCertificate(err error) bool {
	var verification *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var record tls.RecordHeaderError
	return errors.As(err, &verification) || errors.As(err, &unknown) || errors.As(err, &host) || errors.As(err, &record)
}
