// Package result defines what both database engines use: the rows of an answer, the conversion of
// values, and the kinds of failures.
//
// [Rows] collects rows up to its bounds. [Fault] describes a failure in a database, independent of
// the engine; [Fault.Error] converts it to the error of a call. host/docs/effects.md has the table
// of values.
//
// A Rows must be used by one goroutine; other values are immutable.
package result
