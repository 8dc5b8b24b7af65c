// Package expression evaluates the expressions of a configuration.
//
// # Main types
//
// An [Evaluator] evaluates the expressions of one load: locals, references to
// blocks, and functions, which read environment variables and files through
// [Inputs] and return secrets as a [Secret], a handle without the value. [Compile]
// turns the expression of a check into a [Program] of plain functions, so that no
// other layer depends on HCL. A meter bounds the steps and the size of the values
// of both.
//
// # Concurrency
//
// An Evaluator is used by one goroutine. A Program is safe for concurrent use.
//
// # Failure
//
// An Evaluator reports each error to the collector with its place, once per cause.
// A failed evaluation of a Program is a finding of the check.
package expression
