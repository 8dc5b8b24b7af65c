// Package memo keeps what was worked out once, so that equal questions get equal
// answers: the grades of judges (JDG-007). A Memo is bounded by the number of its
// entries and forgets those first that were not asked for the longest.
//
// Who asks for something that is being worked out waits for it instead of working
// too. Only what came about is kept: after a failure the next one who waits tries
// again.
//
// A Memo may be used by many goroutines. It does no work of its own, so it cannot
// fail; what the work does is the caller's.
package memo
