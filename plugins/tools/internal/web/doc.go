// Package web makes one HTTP request within a scope.
//
// The host name is resolved here, every address is checked, and one of exactly
// these addresses is dialed, so that a second DNS answer changes nothing. Each
// redirect is checked like the request itself; credentials are dropped when
// scheme, host or port change, and https is never downgraded. Secrets that the
// server repeats are removed from the answer.
//
// A Client is for one request and one goroutine. Every error is a
// *contract.Error; an error after bytes were sent says that the outcome is
// unknown. No error holds a secret or the query of a URL.
package web
