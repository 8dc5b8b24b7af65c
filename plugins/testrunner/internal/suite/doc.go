// Package suite runs the test suite of a source tree and says what happened as
// data.
//
// [Run] starts the command in a session of its own, bounds its time, its memory
// and the output that is kept, and kills whatever the tests leave behind. How
// the tests go is always a [Result]: a crash, a hang, an exhausted memory limit
// or a build that fails are results that did not pass. An error means that the
// command could not be started or that the caller gave up.
//
// The events of `go test -json` are read as they come, so that a suite that is
// killed still says which tests passed and which one hung. [ExitCode] judges any
// other command by its exit status alone.
//
// Run holds no state; it may be called from many goroutines.
package suite
