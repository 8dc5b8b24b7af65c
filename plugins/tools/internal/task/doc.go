// Package task executes calls of the file and request tools in worker processes. It splits a call
// into the rules by which the worker is confined (the tool, its scope, the place of a file) and the
// call itself (input, key and secrets), and executes it in the worker. See package worker for the
// process.
//
// A Task must be used by one goroutine. Every error is a *contract.Error.
package task
