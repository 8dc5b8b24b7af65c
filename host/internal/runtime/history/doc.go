// Package history reads and changes recorded runs, for the admin actions on runs: it
// lists, shows, watches and compares them, counts them, verifies, exports, imports,
// pins and purges them, answers their questions, and cancels, resumes and replays them.
//
// Runs works on the store of a data directory. What needs a daemon, such as to resume a
// run, it asks of Live; without one it refuses with what to do.
//
// Errors: those of the store in the form that callers get (Failure), run/not-found,
// run/not-resumable, queue/invalid-transition, replay/values-purged, stream/gone.
package history
