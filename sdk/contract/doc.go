// Package contract holds what the host, the plugins and their clients agree on:
// the shape of requests and answers, the metadata of capabilities, and the
// catalogue of errors.
//
// # Envelopes
//
// [TranslateRequest] turns the spellings that people and older clients use into
// the one form of the contract; it belongs to the edge and nowhere else.
// [ParseRequest] then checks a request and returns it as a [Request].
// [CheckResponse] checks what a plugin answered and returns it in normal form.
// [Budget] is the set of limits that a request, a policy or a slice carries.
//
// # Capabilities
//
// [ParseDescription] and [ParseCapability] read the metadata that a plugin
// advertises and report every missing and every ill-typed field at once.
// [Capability.Recovery] says what may happen to a call whose outcome is unknown.
//
// # Effects
//
// [Scope] bounds one effect of a call, and [ParseScope] reads it from plans and
// from the wire. [Tool] names the effect tools that every host knows and decides
// from input and scope alone what may not be done; host and tool use the same
// decision.
//
// # Errors
//
// [Error] is the one error of every boundary. Its type is a name of the
// catalogue ([Lookup], [Rows]) or of a plugin's own namespace. The catalogue
// decides class, source, HTTP status, exit code and help; switch-on sets
// ([SwitchSet]), the documentation ([Markdown]) and every status are read from
// it and from nothing else.
//
// # Concurrency and failure
//
// The package is data: no input or output, no goroutines, no clock. Every value
// is safe for concurrent use as long as nobody writes to it, and no function
// keeps or changes what it was given. A function that can refuse its input
// returns an [*Error] (or an error that is one) with the reason, the path and
// what was expected; nothing here panics on foreign input.
package contract
