// Package solve decides formulas with gophersat in a process of its own.
//
// The library cannot be interrupted and may take memory without bound, so the
// plugin runs its own binary again as a worker for each formula: a call that
// is cancelled kills the worker, and no processor time is burned after that.
// The worker also ends by itself when the plugin is gone.
//
// Run may be called from several goroutines.
package solve
