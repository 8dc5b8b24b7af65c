// Package rescore measures judges, and does so again before what is known of them is
// too old, or when another model gives their grades (JDG-010, JDG-011).
//
// A Measurement has one judge grade all labelled answers and makes a record of that.
// A Rescorer keeps the judges of a configuration measured while a host serves: Run is
// its loop, Configure gives it another configuration, Served tells it which model
// graded, Score is a measurement that an operator wants, Status how all judges stand.
// The Store keeps records and reads anchors.
//
// What the loop does is slow on purpose: one verdict at a time over all judges, with
// three times as long a rest behind each. It measures nobody whom no person has
// measured first, because the first measurement is what later ones are held against
// and somebody should have looked at it. A measurement that fails leaves the record as
// it is and is tried again, later and later.
//
// Concurrency: a Rescorer is safe for concurrent use. No judge is measured twice at
// once: whoever comes second is refused. Run returns when its context ends, and then
// nothing of it goes on.
//
// Failure: all errors are typed. A record that cannot be read is as good as none and
// stays where it is.
package rescore
