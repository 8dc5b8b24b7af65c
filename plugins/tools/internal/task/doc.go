// Package task has what the workers of the file and request tools do: it splits
// a call into the rules by which the worker is confined (the tool, its scope,
// the place of a file) and the rest, and executes it in the worker. See package
// worker for the process.
//
// A Task belongs to one goroutine. Every error is a *contract.Error.
package task
