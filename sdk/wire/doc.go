// Package wire is the contract between a host and its plugins in Go: the
// handshake, the messages, and both ends of every service.
//
// # The two ends
//
// A host holds a [Client] per plugin process and answers the calls that come
// back from it through a [Host]. A plugin implements [Service] (package sdk
// does it for authors) and reaches its host through a [Caller]. Everything
// above this package sees values ([edn.Value]) and typed errors
// ([contract.Error]); the generated messages of package pluginv1 stay in here,
// in hosts' tests of hostile peers, and in plugins of other languages.
//
// # Payloads
//
// A payload is one value as text, canonical EDN or JSON. Strings above
// [BlobThreshold] leave the text and travel beside it as blobs, named by the
// hash of their canonical text; [EncodePayload] takes them out, a [Blobs] puts
// them back and checks the hash, so nobody else ever sees the reference.
// Decoded values share memory with the message they came in.
//
// # Calls
//
// A call is one server stream: deltas, progress and blobs, then exactly one
// result or error, counted from 1 without gaps. Cancelling the context of the
// call cancels it on the other side. Messages are at most [MaxMessage] bytes
// in both directions.
//
// # Many calls over one stream
//
// Where both sides have the feature [FeatureMux], small calls share one stream
// per process: that saves opening and closing a stream for each, and what
// several goroutines have to say at one moment goes out in one message. A call
// is what it is otherwise. Its events before the answer need credit, so that a
// slow reader holds up its own call and nobody else's. A lost stream fails the
// calls in flight as a lost connection does, and the next call opens another.
// Requests above 32 KiB, which would hold up the others, and calls to the host
// have streams of their own.
//
// # Failure
//
// Every error of a [Client] or a [Caller] is a *[contract.Error]. What the
// peer said itself arrives as it said it, within the rules for plugin errors.
// What happened to the connection instead carries a [TransportError], so that
// a supervisor can tell an answer from a broken line: :runtime/crashed for a
// lost connection, :runtime/protocol for a message that breaks this contract,
// :timeout/hard and :canceled for the end of the context. If the context was
// cancelled with a *contract.Error as its cause, that error is returned.
//
// # Concurrency
//
// Client, Caller and Emitter may be used by any number of goroutines. Service
// and Host are called from many goroutines at once.
package wire
