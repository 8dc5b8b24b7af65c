// Package contract defines the data that host, plugins and clients exchange:
// requests, answers, the metadata of capabilities and the catalogue of errors.
//
// # Envelopes
//
// [CheckResponse] validates the answer of a plugin and returns its normal form.
// [Fault] describes what is wrong with a request or an answer.
//
// # Messages
//
// [MessageValue] and [MessageFromValue] map a message of package conversation to
// the data that models, plugins and clients exchange, [MessageFromAnswer] reads
// the answer of a model.
//
// # Capabilities
//
// [ParseDescription] and [ParseCapability] read the metadata that a plugin
// advertises and report every missing and every ill-typed field at once.
// [Capability.Recovery] determines whether a call with an unknown outcome may
// be repeated.
//
// # Errors
//
// [Error] is the error type of every boundary. Its type is a name of the
// catalogue ([Lookup], [Rows]) or of a plugin's own namespace. The catalogue
// alone defines class, source, HTTP status and help; ERRORS.md is derived from
// it.
//
// # Concurrency and failure
//
// The package does no input or output, starts no goroutines and reads no clock.
// Values are safe for concurrent use while they are not modified, and no
// function keeps or modifies its arguments. A function that rejects its input
// returns an [*Error] (or an error that is one) with the reason, the path and
// the expected value; foreign input never causes a panic.
package contract
