// Package solve decides formulas with gophersat in a worker process, or with an
// external program ([External]).
//
// The library cannot be interrupted and its memory is unbounded, so the plugin
// runs its own binary again as a worker for each formula ([Builtin]): canceling
// a call kills the worker. The worker also ends when the plugin dies.
//
// A program is not trusted: its exit code, status and model must
// agree with each other and with the formula, and its output is bounded. It
// runs in its own session, which is gone when a call returns.
//
// [External.Run] is safe for concurrent use.
package solve
