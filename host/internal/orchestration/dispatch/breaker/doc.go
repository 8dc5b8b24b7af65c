// Package breaker implements the circuit breaker and the quality window of a
// candidate for one intent.
//
// A Breaker counts outcomes of calls: whether a capability answers at all. It
// is closed, open, half-open with one probe, or ramping up. A Window counts
// verdicts of gates: whether the answers are good. The two are separate,
// because an answer that fails its gates is still an answer, and a crash says
// nothing about quality. The caller decides what to do when a Window falls
// below its floor; one option is an ejection, which opens the Breaker and ends
// with its ramp.
//
// Both types are state machines that get the time and a random number in [0, 1)
// as values. They start no timers or goroutines and are not safe for concurrent
// use; the caller locks.
package breaker
