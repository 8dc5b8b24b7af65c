// Package proof sets the number of repetitions of property tests: a usual one,
// and a larger one with the build tag long. Under the race detector, Size returns a
// quarter of the usual one. Spent measures the cost of code independently of the
// load of the machine.
//
// Size records the proof when the test ends: one line in the file named by
// FERMENT_PROOFS, which "make long" prints, or in the log of the test if it is
// not set. Size and Of are safe for concurrent tests.
package proof
