// Package interrupt holds the questions of a run that people answer.
//
// Main types: a Table belongs to one run. An attempt opens a Question in it and
// waits; an answer from outside ends the wait. A question is answered once: by a
// person, by its deadline, or not at all, because its attempt was canceled.
//
// Concurrency: all methods are safe for concurrent use. The zero Table is empty and
// ready. A nil Table has no questions; only Open must not be called on it.
//
// Errors are interrupt/not-found, interrupt/answered and interrupt/answer-invalid,
// and those of the recorder.
package interrupt
