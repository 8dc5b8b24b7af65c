// Package tally counts from journal records: acts, operations, attempts, verdicts,
// failures, durations and costs.
//
// An operation is one execution of a :call or :tool node, an attempt one dispatch to one
// candidate. They are counted separately. Every count belongs to the time of the record
// that ends the counted item, so that the records of a period give the same counts
// whenever and wherever they are read.
//
// Main types: Counts are the counts of a period, with their KPIs; Read adds the records
// of one run. Meter counts the records of all runs while they are written; it holds the
// counts since its start and of the last hour. Run is the state of one run between its
// records.
//
// Concurrency: a Run and its Counts are for one goroutine; a Meter is safe for
// concurrent use.
//
// Errors: none. A record that does not belong to a known item is not counted.
package tally
