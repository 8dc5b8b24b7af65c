// Package calibration measures the reliability of judges against labelled
// answers.
//
// ParseAnchors parses and checks answers that people labelled good or bad.
// Measure computes from a judge's verdicts on them a Record, the figures that
// are stored in the host's data directory; ParseRecord and Record.Value are its
// EDN form. Record.Corrected turns the share of answers that a judge passed
// into an estimate of the share that is good, with an interval. Record.Since
// and Record.Drifted decide whether a judge has become worse, and Record.Faults
// lists the biases that the figures show. Record.Standing returns the resulting
// trust in a judge, and Record.Due the time of the next calibration.
//
// All types are values and all functions are pure and safe for concurrent use.
// Randomness is passed in as a seed, time as a value. Invalid text gives a
// *contract.Error with every problem and its path.
package calibration
