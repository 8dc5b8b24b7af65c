// Package history reads and changes recorded runs, for the admin actions on runs: it lists, shows,
// watches and compares them, counts them, verifies, exports, imports, pins and purges them, answers
// their interrupts, and cancels, resumes and replays them.
//
// Runs works on the store of a data directory. Operations that need a daemon, such as resuming a
// run, use Live; without one they are rejected with a hint.
//
// Errors: those of the store in the form for callers (Failure), run/not-found, run/not-resumable,
// queue/invalid-transition, replay/values-purged, stream/gone.
package history
