// Package result has what the engines of databases share: the rows of an answer,
// the conversion of values, and the kinds of failures.
//
// [Rows] collects rows up to its bounds. [Fault] says what went wrong in a
// database, independent of the engine; [Fault.Error] is the error of a call.
// The table of values is in host/docs/effects.md.
//
// Rows belong to one goroutine; all else is immutable.
package result
