// Package calibration knows how far a judge may be believed. A judge is a
// measuring instrument: before its verdicts count, it is shown answers of which
// people said whether they are good, and what it makes of them is measured.
//
// ParseAnchors reads and checks such labelled answers. Measure turns what the
// judge said of them into a Record, the figures that are kept in a file beside
// the data of the host; ParseRecord and Record.Value are its EDN form. Record.Corrected
// turns the share of answers that a judge let pass into an estimate of the share
// that is good, with an interval. Record.Since and Record.Drifted decide whether a
// judge has become worse, and Record.Faults says which habits the figures show.
// Record.Standing says in a word how far a judge may be believed, and Record.Due when
// it is to be measured again.
//
// Everything here is a value or a pure function and safe for concurrent use.
// Randomness comes in as a seed, time as a value. Text that is refused gives a
// *contract.Error with every problem and its path.
package calibration
