// Package client calls the HTTP interface of a Ferment daemon: acts with their answers
// or event streams, jobs, recorded runs, sessions and administration.
//
// # Connecting
//
// [New] returns the client of a daemon at a URL, with a token of a user. [Dial] returns
// that of the daemon of a data directory on this machine, over its admin socket, whose
// caller is an operator.
//
// # Values
//
// Requests and answers are EDN values, which lose nothing: keywords, sets, decimals and
// instants stay what they are. Structs such as [Run] and [Job] hold the fields that
// programs select by; their field Value has the whole answer.
//
// # Errors
//
// An error of the daemon is a [contract.Error]: its type, class and details are those of
// the error catalogue, and Retryable reports whether the same request may succeed later.
// A connection that ends before the response is runtime/not-ready. When ctx ends, the
// error is its cause. An act whose run failed has a response, so it is not an error of
// [Client.Act]: [Response.Err] returns it.
//
// # Concurrency
//
// A Client is safe for concurrent use and reuses connections. Nothing is sent twice
// unless the caller does it, except that [Client.Watch] connects again to go on after the
// last event that it has shown, and that a request that a restarted daemon refuses at its
// admin socket is sent again with the new token.
package client
