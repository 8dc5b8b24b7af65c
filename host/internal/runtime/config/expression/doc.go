// Package expression evaluates the expressions of a configuration.
//
// # Main types
//
// An [Evaluator] evaluates the expressions of one load: locals, references to blocks, and
// functions. The functions read environment variables and files through [Inputs] and return secrets
// as a [Secret], a handle without the value. [Compile] compiles the expression of a check to a
// program whose methods return plain functions, so that other layers do not depend on HCL. A meter
// limits the steps and the size of the values of both.
//
// # Concurrency
//
// An Evaluator is used by one goroutine. A compiled program is safe for concurrent use.
//
// # Failure
//
// An Evaluator reports each error to the collector with its position, once per cause. If a compiled
// program cannot be evaluated, the result is a finding of the check.
package expression
