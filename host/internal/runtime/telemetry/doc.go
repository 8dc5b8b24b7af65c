// Package telemetry writes the log of the daemon.
//
// NewLog returns a logger that writes JSON objects, or aligned text for
// people. Equal lines that repeat too fast are folded into one with a count.
// The logger is safe for concurrent use; its flush function writes the pending
// counts. A line that cannot be written is lost.
package telemetry
