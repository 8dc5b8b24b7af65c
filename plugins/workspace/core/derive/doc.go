// Package derive makes frames from files and from other frames, and regenerates them when their
// inputs have changed.
//
// # Producers
//
// A frame stores its recipe: the producer and its parameters. There are three kinds of producers:
//
//	extract/…    reads the bytes of one file: see package extract
//	synthesize   combines the frames of the entries of one directory: see package policy
//	generate     calls an intent, usually a model, with a prompt
//
// [Engine.Synthesize] makes one frame of a directory, [Engine.Generate] frames of files and
// directories by any producer, [Engine.Regenerate] runs the recipes of the frames whose inputs
// changed or that are marked (store.Tx.Invalidate).
//
// # Which producer makes a frame
//
// A generate request without a producer calls a model if the request or its agent names one, or if
// the request has an intent or a prompt. Otherwise the producer is chosen for each path, so that a
// workspace without a model still gets useful frames: for a file extract/auto, which is
// extract/go-outline for Go that parses, extract/text for any other text and extract/facts for
// everything else; for a directory a synthesis with the policy summarize of the frames of its
// entries. All of them have the same frame type, which a model can take over later. A path that
// already has a fresh frame of that type keeps it, even if another agent made it.
//
// # Planning and committing
//
// Frames are computed from a snapshot, level by level, the deepest directories first; a level sees
// the frames of the levels below. The transaction that appends them computes every basis again. If
// one differs, the inputs have changed meanwhile and the work is repeated, at most 3 times.
//
// # Concurrency and failure
//
// An Engine is safe for concurrent use. At most one call computes a (path, type) at a time; others
// wait and then find the result. Errors are of type *contract.Error: those of the packages store
// and policy, and agent/*, synthesis/*, regenerate/contended, generate/*, provider/*,
// scan/unreadable. An item of a batch that fails is reported in the result; a request about one
// path returns the error.
package derive
