// Package sessiontest tests implementations of session.Store: the same suite runs
// on each of them. Its model of a session is a plain map, with the rules written
// out for the few names that it uses.
package sessiontest
