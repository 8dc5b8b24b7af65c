// Package quality judges answers with checks and computes a verdict from their
// outcomes.
//
// It runs the checks that need only values, parses the answers of capability checks, and
// computes the verdict; dispatch decides what happens next. A Set holds every Check of one
// configuration. Gates lists the checks that one call must and should pass, in the order in
// which they run. Decide turns their results into a Verdict with exact arithmetic: scores
// are thousandths, rounded half to even once, so every machine computes the same verdict.
//
// All types are values and all functions are pure and safe for concurrent use.
// A check that panics or misbehaves fails with a finding.
package quality
