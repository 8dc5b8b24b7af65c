// Package view selects and orders frames: those of one node with a [View], those
// of several nodes with a [Request] to compose.
//
// [Parse] reads a view from EDN, [ParseRequest] a composition. [Node], [Frames],
// [Head], [History] and [Compose] read from a snapshot of the store and return
// the results of the intents as Go values whose EDN is canonical: the same
// request at the same sequence number gives the same bytes.
//
// # Limits
//
// A view never returns more frames or bytes of text than it allows. A frame
// whose text does not fit is returned without it.
//
// # Order
//
// Every ordering ends with the frame id, so it is total.
//
// # Concurrency and failure
//
// All functions are safe for concurrent use and write nothing. Errors of parsing
// have the type input/invalid; their details hold the EDN path of the entry, the
// reason and what is allowed. A composition can also fail with limit/exceeded or
// compose/custom-failed. Other errors are those of the store.
package view
