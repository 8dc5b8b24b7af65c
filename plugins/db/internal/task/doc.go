// Package task executes calls of the database tools in worker processes. It splits a call into the
// rules (the connection, the scope, the effect key) and the statements. With the rules the worker
// opens the database and begins the transaction; then it is confined to the open files and
// connections, and only then reads the statements. See package worker for the process.
//
// A Task must be used by one goroutine. Every error is a *contract.Error.
package task
