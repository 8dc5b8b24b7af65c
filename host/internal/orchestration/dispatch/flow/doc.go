// Package flow decides the next step of one operation: which candidate is tried,
// which attempt is made, repeated, repaired or stopped, and which answer is
// accepted.
//
// Machine is a state machine without clock, goroutine, randomness or I/O. It
// emits commands. A driver carries them out and applies one event with the
// result of each. All outside input (states of candidates, time, draws, answers
// and verdicts) comes in these events, and they are data. A machine to which the
// events of a recorded operation are applied therefore reaches the state of that
// operation, even if the record is incomplete; Open then returns the commands
// that were not carried out yet.
//
// A cascade makes one attempt after another. Parallel makes several at once; the
// cascade then retries the candidates that failed. Both share the open commands
// and the list of candidates that were tried.
//
// Decide is the attempt table: the next action after a failure.
//
// Concurrency: a Machine belongs to one goroutine.
package flow
