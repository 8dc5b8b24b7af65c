// Package server starts one model server, waits until it is ready, and stops
// it.
//
// A Plan describes the server. Start chooses a port, starts the process, waits
// until it has completed one token, and returns a Server; on failure it returns
// a typed error and leaves no process. The end of a server is noticed by
// waiting for its process; Died returns the cause.
//
// The process runs in its own session, which is killed as a whole when the
// process ends. A second process (launch.Reaper) kills it if this one dies
// first. A bounded part of its output is kept. Timers use the clock of the
// plan, except for those of the stop steps.
//
// All methods are safe for concurrent use.
package server
