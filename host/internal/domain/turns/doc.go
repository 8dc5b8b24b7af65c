// Package turns is the structure of conversations: pure functions on values.
//
// A conversation is a [Path]: an ordered list of turns, each with the span that is
// selected of its alternatives. Turns and spans are immutable and have numbers that
// a store gives them, so conversations can share them. What changes is the path. Each
// operation returns a [Change], which says how much of the path stays and what follows:
//
//   - [Append] adds messages as new turns,
//   - [Path.Answer] adds an alternative to a turn, and selects it,
//   - [Path.Exchange] does so with a message of the user and its answer,
//   - [Path.Select] selects another alternative of a turn,
//   - [Path.Truncate] ends the path before a turn,
//   - [Path.Restore] makes the path that of an earlier version.
//
// Nothing is deleted by a change: the spans of earlier versions stay.
//
// [Check] and [Results] reject messages that cannot be part of a conversation. All
// errors are of type *contract.Error.
package turns
