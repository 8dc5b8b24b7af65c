// Package proof sets the number of repetitions of property tests: a usual one,
// and a larger one with the build tag long. The race detector, which finds what
// goroutines share and not what is wrong, gets a quarter of the usual one. Spent
// measures the cost of code independently of the load of the machine.
//
// Size and Of record the proof when the test ends: one line in the file named
// by FERMENT_PROOFS, which "make long" prints, or in the log of the test if it
// is not set. Both are safe for concurrent tests.
package proof
