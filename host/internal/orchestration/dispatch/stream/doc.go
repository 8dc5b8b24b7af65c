// Package stream forwards the text of answers to the reader of a run while it
// is produced.
//
// A Text belongs to the answer node of a run or of a plan answer. It has one
// Attempt per attempt of that node, which takes the pieces of text in their
// order. Text that is shown before the gates have run can be retracted, or it
// commits its node to the attempt: the Mode of a call decides. Pace blocks a
// plugin while the reader is behind.
//
// Concurrency: all types are safe for concurrent use. A nil Text, Attempt,
// Inline, Live or Pace does nothing; only Text.Mode, Attempt.Receive and
// Attempt.Report must not be called on nil.
//
// Failure: a malformed stream ends its attempt; Attempt.Failure returns the error.
package stream
