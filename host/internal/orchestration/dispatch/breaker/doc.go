// Package breaker remembers how the candidates of an intent have done, and says
// from it who may be called next.
//
// A Breaker counts outcomes of calls: whether a capability answers at all. It
// is closed, open, half-open with one probe, or ramping up again. A Window
// counts verdicts of gates: whether what it answers is any good. The two are
// kept apart, because an answer that fails its gates is still an answer, and a
// process that crashes says nothing about quality. What is done about a Window
// that falls below its floor is decided elsewhere; an Ejection is one way, and
// comes back through the ramp of the breaker.
//
// Everything here is a state machine that is given the time and a random
// number in [0, 1) as values. Nothing starts a timer or a goroutine, and nothing
// is safe for concurrent use: a table above holds the lock.
package breaker
