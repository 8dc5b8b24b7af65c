// Package suite runs the test suite of a source tree and returns the results as
// data.
//
// [Run] starts the command in its own session, limits its time, memory and kept
// output, and kills leftover processes. Every outcome of the tests is a
// [Result]: a crash, a hang, an exhausted memory limit or a failed build are
// results that did not pass. An error means that the command could not be
// started or that the call was canceled.
//
// The events of `go test -json` are parsed as they arrive, so that the result
// of a killed suite still has the tests that passed and the one that hung.
// [ExitCode] judges any other command by its exit status alone.
//
// Run is stateless and safe for concurrent use.
package suite
