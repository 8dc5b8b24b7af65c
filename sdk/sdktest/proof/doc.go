// Package proof gives tests that repeat something many times their size: a usual
// one, and the full one with the build tag long. Spent is a measure for tests of
// what something costs, which a busy machine does not change.
//
// Size and Of record what was proved when the test ends: one line per proof in
// the file that FERMENT_PROOFS names, which "make long" prints, or the log of the
// test if it is not set. Both may be used by tests that run at once.
package proof
