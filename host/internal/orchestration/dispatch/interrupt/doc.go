// Package interrupt holds the questions of a run that people answer.
//
// Main types: a Table belongs to one run. An attempt opens a Question in it and
// waits; an answer from outside ends the wait. A question is answered once: by a
// person, by its deadline, or not at all, because its attempt was canceled.
//
// Concurrency: all methods may be called at any time. The zero Table is empty, a
// nil one has no questions and takes none.
//
// Errors are interrupt/not-found, interrupt/answered and interrupt/answer-invalid,
// and those of the recorder.
package interrupt
