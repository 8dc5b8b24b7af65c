// Package telemetry writes the log of the daemon and shows its metrics.
//
// Metrics turns what a tally counts from records, and samples of the owners of
// other figures, into the text format of Prometheus; the table families describes
// every metric. Commits and Reasons are counters of what is in no record of a run.
//
// NewLog returns a logger that writes JSON objects, or aligned text for
// people. Equal lines that repeat too fast are folded into one with a count.
// The logger is safe for concurrent use; its flush function writes the pending
// counts. A line that cannot be written is lost.
package telemetry
