// Package rescore measures judges, and repeats a measurement before it expires
// or when another model gives the grades (JDG-010, JDG-011).
//
// A Measurement lets one judge grade all labelled answers and computes a
// record. A Rescorer keeps the judges of a configuration measured: Run is its
// loop, Configure sets another configuration, Served reports the model behind a
// grade, Score is a measurement on request, Status returns the state of all
// judges. The Store keeps records and reads anchors.
//
// The loop is slow on purpose: one verdict at a time over all judges, each
// followed by a pause of three times its duration. It only repeats measurements:
// the first one of a judge is the baseline of later ones and is left to an
// operator. A failed measurement keeps the old record and is repeated with a
// growing backoff.
//
// Concurrency: a Rescorer is safe for concurrent use. A judge is measured by
// one call at a time; a concurrent call returns an error. Run returns when its
// context ends, and leaves no goroutine behind.
//
// Errors: Rescorer.Score lists the error types of a measurement. The loop reports
// errors as notices. An unreadable record counts as missing and is not overwritten by
// the loop.
package rescore
