// Package solve decides formulas with gophersat in a process of its own, or with
// a program of the machine ([External]).
//
// The library cannot be interrupted and may take memory without bound, so the
// plugin runs its own binary again as a worker for each formula: a call that
// is cancelled kills the worker, and no processor time is burned after that.
// The worker also ends by itself when the plugin is gone.
//
// A program is not trusted: its exit code, its claim and its model have to agree
// with each other and with the formula, and what it may write is bounded. It runs
// in a session of its own, of which nothing is left when a call returns.
//
// Run may be called from several goroutines.
package solve
