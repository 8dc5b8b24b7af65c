// Package issuertest runs an OpenID Connect issuer for tests: a complete server with TLS and its
// own certificate authority that logs users in and issues tokens.
package issuertest
