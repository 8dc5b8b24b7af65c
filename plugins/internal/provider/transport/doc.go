// Package transport makes one request to a model server and returns its answer
// piece by piece, under timers.
//
// A Client belongs to one account. Exchange is one request: at most one goes on
// the wire, nothing is repeated, no redirect is followed, and no proxy is taken
// from the environment. The body is read ahead by at most Ahead pieces; then
// reading pauses until the caller has taken some.
//
// # Timers
//
// Connect bounds the time to a connection, First the time to the first payload,
// Silence the time without any byte of the body, Stall the time without payload
// after the first one, and Total the whole. The caller reports payload
// (Exchange.Payload) and its own blocking (Exchange.Blocked), so that a slow
// reader is never taken for a slow server. Time comes from a Clock.
//
// # Concurrency and failure
//
// A Client is safe for concurrent use, an Exchange belongs to one goroutine.
// Errors are *Fault; Close closes the connection at once and leaves no goroutine
// behind.
package transport
