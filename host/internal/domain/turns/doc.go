// Package turns computes the changes of a conversation, as pure functions on values.
//
// A conversation is a [Path]: an ordered list of turns. A turn has one or more alternative
// spans, one of which is selected on the path. Turns and spans are immutable and get their
// numbers from a store, so conversations can share them; only the path changes. Each
// operation returns a [Change]: the number of steps that stay, and the steps that follow
// them.
//
//   - [Append] adds messages as new turns,
//   - [Path.Answer] adds an alternative to a turn, and selects it,
//   - [Path.Exchange] does so with a message of the user and its answer,
//   - [Path.Select] selects another alternative of a turn,
//   - [Path.Truncate] ends the path before a turn,
//   - [Path.Restore] makes the path that of an earlier version.
//
// A change deletes nothing: the spans of earlier versions stay.
//
// [Check] and [Results] reject messages that cannot be part of a conversation, and [Sendable]
// omits those that a model cannot be sent. All errors are of type *contract.Error.
package turns
