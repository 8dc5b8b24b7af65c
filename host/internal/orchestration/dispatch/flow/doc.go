// Package flow decides how one operation goes on: which candidate is tried,
// which attempt is made, repeated, repaired or stopped, and which answer is
// accepted.
//
// Machine is a state machine without clock, goroutine, randomness or I/O. It
// emits commands. A driver carries them out and applies an event for each:
// what came of it. Everything that the machine cannot know (states of
// candidates, time, draws, answers and verdicts) is in the events, and these are
// data. So a machine to which the events of a recorded operation are applied is
// in the state of that operation, whatever the point at which the record ends,
// and Open returns the commands that were still to be carried out there.
//
// A cascade makes one attempt after another, parallel makes several at once and
// leaves what failed to the cascade. Both share the open commands and the
// candidates that were tried.
//
// Decide is the attempt table: the next action after a failure.
//
// Concurrency: a Machine belongs to one goroutine.
package flow
