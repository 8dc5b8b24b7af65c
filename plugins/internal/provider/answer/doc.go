// Package answer answers one call: it asks the model server the question that
// package question read, follows the stream, and makes the value, the usage and the
// metadata of the contract out of what came.
//
// A Provider is one account with its models. Answer makes at most one request;
// it is for the host to try again, elsewhere, or with findings. Where the tokens
// of a request have to be known that nobody states, they are counted (package counting):
// by the server, which is one request more, by a table, or by length. Everything that
// can go wrong is a row of package failure. A Provider is safe for concurrent
// use.
package answer
