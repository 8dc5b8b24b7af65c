// Package issuertest runs an OpenID Connect issuer for tests: a whole server that speaks
// TLS with a certificate of its own authority, logs people in, and makes tokens.
package issuertest
