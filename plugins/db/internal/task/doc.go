// Package task has what the workers of the database tools do: it splits a call
// into the rules (the connection, the scope, the effect key) and the statements.
// By the rules the worker opens the database and begins the transaction; then it
// is confined to what is open, and reads the statements. See package worker for
// the process.
//
// A Task belongs to one goroutine. Every error is a *contract.Error.
package task
