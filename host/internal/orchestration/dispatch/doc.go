// Package dispatch gets one call answered: it binds a call to its candidates,
// makes attempts, judges each answer by the gates of the call, and decides after
// each failure whether the same candidate is asked again, the next one, or
// nobody. Attempts follow one another, or run side by side as a race, a hedge or
// a tournament, if asking a candidate has no effects.
//
// Main types: Executor is what the package needs from the adapters, Call and
// Answer what crosses that line. Dispatcher serves Work, the description of a
// call whose slots are filled and whose policy is merged, and returns a Result.
// Decide is the attempt table as a pure function. Book remembers, beyond one
// call, how candidates have done: their breakers and what orders rest on. Clock and Rand are the only
// sources of time and chance.
//
// Text of an answer that somebody waits for leaves a run by the Flow of the node
// that gives it, before its gates have spoken if the policy says so: then it may
// be taken back, or nobody else is asked any more. Pace holds a plugin back while
// the reader is behind.
//
// The last gate is a judge, if the policy of a call names one (jury.go,
// judging.go): a capability that grades the answer. It is asked if its grade can
// still matter, never for what it wrote itself nor within its own grading; a grade
// that is not enough is put to the vote; Grades remembers what was graded, so that
// equal text has one grade. What votes cost is on the account of the node. Package
// rescore measures judges, and Book.Believe has what came of that count.
//
// Where a budget of tokens or money is so tight that the estimate of what a call
// takes could decide, the candidate is asked for a count of its input before
// anything is reserved for it (count.go).
//
// Concurrency: a Dispatcher is immutable and may serve any number of calls at
// once. One call runs on the goroutine of its caller: it records, judges and
// decides. Only calls to candidates that are asked side by side and the
// capability checks of one tier run beside it, and all of them have ended when
// Serve returns.
//
// Failure: everything that can go wrong is a *contract.Error in the Result.
// Serve never panics for a bad answer; a panic means a defect and is left to
// the evaluator, which finalises the run.
package dispatch
