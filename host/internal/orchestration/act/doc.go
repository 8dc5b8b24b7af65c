// Package act processes a request from its value to its response: it checks
// the request, converts it to a plan, evaluates the plan, and returns the
// outcome.
//
// Main types: Service runs the acts of one configuration. Start accepts an Act
// and returns a Run, which can be followed, canceled and awaited; Do combines
// Start and Wait. Every act is a plan: one that names only an intent becomes a
// plan of one node, so gates, retries and fallbacks apply to every answer.
//
// Watch reads a run while it executes, including text of its answer. Within executes a
// request that a plugin makes within a call: it is part of the run of that call, and
// ends with it.
//
// Resume continues a run from its records after its host stopped or the run failed.
// Start does the same for an act with the idempotency key of a failed run. Replay
// executes a finished run again from its records alone. Both use the stages of a new
// run, with recorded results in place of calls, verdicts and random draws. Fill returns
// an act that replays a run as a new run and makes the calls that are not recorded.
//
// An act passes four stages in fixed order: prepare, route, execute, finalize.
// The steps of each are named and compiled once per configuration. Finalize
// always runs once a run was accepted.
//
// Concurrency: a Service is safe for concurrent use. Each Run has one
// goroutine of its own, which has ended when Wait returns.
//
// Values that a schema marks as secret are never recorded (JRN-022).
//
// Errors: a request that is rejected before it is accepted creates no run; its
// error is returned. Every later error is in the response, including panics,
// which become runtime/internal.
package act
