// Package quality judges answers: it knows the checks, runs those that need
// nothing but values, reads the answers of those that a capability gives, and
// does the arithmetic that turns outcomes into a verdict.
//
// It judges and never decides what happens next; that is dispatch. A Set holds
// every Check of one configuration. Gates lists the checks that one call must
// and should pass, in the order in which they run. Decide turns their results
// into a Verdict with exact arithmetic: scores are thousandths, rounded half to
// even once, so every machine gives the same verdict.
//
// Everything here is a value or a pure function and safe for concurrent use. A
// check that panics or misbehaves is not tolerated silently: it fails with a
// finding.
package quality
