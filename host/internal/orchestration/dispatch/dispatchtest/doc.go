// Package dispatchtest stands in for plugins in tests of the orchestration: an
// Executor that plays scripts, and a World of capabilities, intents and checks
// written as EDN. It starts no process and waits on the clock of the test.
//
// Executor may be used by many goroutines. Misuse of the package fails the test
// that made the World.
package dispatchtest
