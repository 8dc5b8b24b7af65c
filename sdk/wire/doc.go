// Package wire implements the contract between a host and its plugins in Go:
// the handshake, the messages, and both ends of every service.
//
// # The two ends
//
// A host has one [Client] per plugin process and answers the plugin's requests
// with a [Host]. A plugin implements [Service] (package sdk does this for
// authors) and calls its host with a [Caller]. Packages above this one use
// values ([edn.Value]) and typed errors ([contract.Error]); the generated
// messages of package pluginv1 are used only here and in tests with hostile
// peers.
//
// # Payloads
//
// A payload is one value as text, canonical EDN or JSON. Strings above
// [BlobThreshold] are sent beside the text as blobs, named by the hash of their
// canonical text. [EncodePayload] extracts them; [Blobs] verifies the hash and
// restores them, so code above this package never sees a reference. Decoded
// values share memory with their message.
//
// # Calls
//
// A call is one server stream: deltas, progress and blobs, then exactly one
// result or error, numbered from 1 without gaps. Canceling the context of the
// call cancels it on the other side. Messages have at most [MaxMessage] bytes
// in both directions.
//
// # Many calls over one stream
//
// If both sides have the feature [FeatureMux], small calls share one stream per
// process. This avoids opening and closing a stream per call, and frames of
// concurrent calls are sent in one message. The semantics of a call are
// unchanged. Events before the answer need credit, so that a slow reader blocks
// only its own call. A lost stream fails the calls in flight like a lost
// connection, and the next call opens a new one. Requests above 32 KiB, which
// would block the others, and calls to the host have streams of their own.
//
// # Failure
//
// Every error of a [Client] or a [Caller] is a *[contract.Error]. An error that
// the peer returned arrives unchanged, within the rules for plugin errors. A
// failure of the connection wraps a [TransportError], so that a supervisor can
// distinguish an answer from a broken connection: :runtime/crashed for a lost
// connection, :runtime/protocol for a message that violates this contract,
// :timeout/hard and :canceled for the end of the context, and otherwise
// :runtime/invoke-failed. If the context was canceled with a *contract.Error as its
// cause, that error is returned.
//
// # Concurrency
//
// Client, Caller and Emitter are safe for concurrent use. Service and Host must
// be, too.
package wire
