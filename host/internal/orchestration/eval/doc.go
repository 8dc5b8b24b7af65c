// Package eval walks plans. It decides which node runs when, fills slots, lets
// dispatch get calls answered, commits what was accepted, and goes on, into the
// plans that capabilities answer with and into the items of maps.
//
// Main types: Evaluator serves the runs of one configuration. Run takes a
// linked program and gives what the plan emitted, or the failure that ended it.
// Recorder numbers the records of a run and hands them to the journal.
//
// Order: a node starts when everything it waits for is committed, skipped or
// kept as failed; among ready nodes the one with the lower index starts first.
// Strict plans run one node at a time, hybrid ones up to :max-parallel, lazy
// ones all that are ready. When a node fails, every node before it in program
// order is still run to its end and everything after it is canceled, so the
// failure that is reported does not depend on which call was faster.
//
// Concurrency: each running plan has one owner goroutine that holds its
// environment, starts nodes and commits them. Nodes that run beside each other
// have goroutines of their own; all have ended when Run returns. An Evaluator
// is immutable and may serve any number of runs at once.
//
// Failure: every failure is a *contract.Error with the place in the plan. A
// panic in a node becomes runtime/internal and ends the run like any failure.
package eval
