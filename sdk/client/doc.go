// Package client calls the HTTP interface of a Ferment daemon: acts with their answers
// or event streams, jobs, recorded runs, sessions and administration.
//
// # Connecting
//
// [New] returns the client of a daemon at a URL, with the token of a user. [Dial] returns
// the client of a daemon on this machine, connected to the admin socket in the data
// directory of the daemon, where each caller is an operator.
//
// # Values
//
// Requests and answers are EDN values, so keywords, sets, decimals and instants keep their
// types. Structs such as [Run] and [Job] have the fields that most programs need; their
// field Value has the whole answer.
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
// A Client is safe for concurrent use. The client of [New] reuses connections; that of
// [Dial] opens one for each request. A client sends no request twice, with two exceptions:
// [Client.Watch] connects again and continues after the last event that it has shown, and
// a request that an admin socket rejects after a restart of the daemon is sent again with
// the new token.
package client
