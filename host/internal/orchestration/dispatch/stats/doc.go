// Package stats keeps the state of capabilities across calls: the breaker, the
// window of verdicts, latencies and costs of each capability for each intent.
//
// Main types: Table holds one Candidate per capability and intent and outlives
// the configuration. A Candidate admits calls, and its Record counts their results.
// Sample is a verdict on an answer; when the pass rate falls below its floor, a
// Remediation restarts, swaps or ejects the capability. Figures are the
// statistics at one moment, which Sort orders; Condition is the current load.
// Notice reports a change of state.
//
// Concurrency: a Table and its candidates are safe for concurrent use. Notices
// are delivered on the goroutine of the change, without a lock.
//
// Failure: nothing here fails. A remediation that cannot be carried out is
// reported by a Notice.
package stats
