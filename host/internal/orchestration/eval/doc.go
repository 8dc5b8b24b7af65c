// Package eval evaluates plans. It schedules nodes, fills slots, has package
// dispatch execute calls, and commits accepted values, including nested plans
// and the items of maps.
//
// Main types: Evaluator serves the runs of one configuration. Run takes a
// linked program and returns the emitted value, or the error that ended it.
// Recorder numbers the records of a run and appends them to the journal.
//
// A task with a past is a run that is resumed or replayed: nodes whose commit is
// recorded keep their value, and package dispatch uses recorded attempts instead of
// making new ones. With Replay set every node runs again and its value must be the
// recorded one.
//
// Order: a node starts when everything it depends on is committed, skipped or
// kept as failed; among ready nodes the one with the lower index starts first.
// Strict plans run one node at a time, hybrid ones up to :max-parallel, lazy
// ones all that are ready. When a node fails, every node before it in program
// order still runs to its end and everything after it is canceled, so the
// reported error does not depend on which call was faster.
//
// Concurrency: each running plan has one owner goroutine that holds its
// environment, starts nodes and commits them. Concurrent nodes have goroutines
// of their own; all have ended when Run returns. An Evaluator is immutable and
// safe for concurrent use.
//
// Errors: every error is a *contract.Error with the place in the plan. A panic
// in a node becomes runtime/internal and ends the run like any error.
package eval
