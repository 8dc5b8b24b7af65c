// Package answer executes one call: it sends the question parsed by package
// question to the model server, reads the stream, and builds value, usage and
// metadata of the contract from it.
//
// A Provider is one account with its models. Answer makes at most one request;
// retries, fallbacks and repairs are up to the host. Where token counts are
// needed that the provider does not state, they are counted (package counting):
// by the server, which is one more request, by a table, or by length. Every
// failure is a row of package failure. A Provider is safe for concurrent use.
package answer
