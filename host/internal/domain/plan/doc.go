// Package plan parses and checks plans and links them into programs.
//
// Parse reads a plan value into a Plan. Every slot is bound while parsing to
// the one place that can fill it (the nearest earlier writer in program order,
// else a binding or the parent's environment), so timing never changes what a
// node reads. Check runs all static checks and returns every Finding at once,
// with positions if the plan came from a text. Link computes the dependency
// Graph and the other facts that depend on the registry, and returns the
// Program that an evaluator runs.
//
// At run time a Frame holds the slots of one running plan. Templates are filled and
// conditions evaluated from it, and an emit keeps only the values that may leave the plan.
// Templates are compiled: filling visits only the parts that hold slots and shares
// everything else.
//
// The result of a capability fills a system prompt only through a slot that has
// :slot/system? true where the text enters the call (PRM-002). Check reports
// the places visible in the plan, CHECK-029; Node.UnmarkedSystem and
// Node.UnmarkedInput find those visible only in filled values.
//
// Plan, Program, Graph and Template are immutable and safe for concurrent use. Only the
// owner of a Frame sets slots; other goroutines may read slots that the owner has already
// set. The package does no I/O, starts no goroutines and reads no clock. An invalid plan
// results in findings, an invalid value at run time in a typed error; no EDN value causes a
// panic.
package plan
