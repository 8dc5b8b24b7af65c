// Package web makes one HTTP request within a scope.
//
// The name of the host is resolved here, every address is judged, and one of
// exactly these addresses is dialled, so that a second answer of the name server
// changes nothing. Each redirect is judged like the request itself; credentials
// stay behind when scheme, host or port change, and https is never left. A secret
// that the server repeats is taken out of the answer.
//
// A Client is for one request and one goroutine. Failure: every error is a
// *contract.Error; one that came after bytes were sent says that the outcome is
// unknown. No error holds a secret or the query of a URL.
package web
