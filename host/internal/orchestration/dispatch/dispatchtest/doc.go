// Package dispatchtest replaces plugins in tests of the orchestration: an
// Executor that plays scripts, and a World of capabilities, intents and checks
// written as EDN. It starts no process and uses the clock of the test.
//
// An Executor is safe for concurrent use. Misuse fails the test that made the
// World.
package dispatchtest
