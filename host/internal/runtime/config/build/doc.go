// Package build creates the generation that the host runs from a decoded configuration.
//
// # Main types
//
// [New] returns a [Generation]: the registry of capabilities and intents, the checks, the policy
// layers, effects, budgets and prompts. It resolves the references between blocks, and compiles the
// conditions of checks to functions. [Calibrations] stores the calibrations of judges, which
// determine whether a judge may reject an answer.
//
// # Concurrency
//
// A generation is built by one goroutine. It is immutable and safe for concurrent use.
//
// # Failure
//
// Each reference to an unknown name is reported once, with the most similar name. A configuration
// with an error has no generation.
package build
