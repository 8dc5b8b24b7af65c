// Package telemetry writes the log of the daemon.
//
// NewLog returns a logger whose lines are JSON objects, or aligned text for
// people. Equal lines that repeat too fast are folded into one with a count.
// The logger is safe for concurrent use; its close function writes the counts
// that are still held back. A line that cannot be written is lost.
package telemetry
