// Package tally counts what journal records say: acts, operations, attempts,
// verdicts, failures, durations and costs.
//
// An operation is one execution of a :call or :tool node, an attempt one dispatch
// to one candidate. Both are counted, and never added to each other. Every count
// belongs to the instant of the record that ends what is counted, so that the
// records of a period give the same counts whenever and wherever they are read.
//
// Main types: Run folds the records of one run and adds to Counts; Counts are
// the counts of a period, with their KPIs; Meter folds the records of all runs
// while they are written and keeps the counts since its begin and of the last
// hour.
//
// Concurrency: a Run and its Counts belong to one goroutine; a Meter is safe for
// concurrent use.
//
// Errors: none. A record that does not fit to its run counts nothing.
package tally
