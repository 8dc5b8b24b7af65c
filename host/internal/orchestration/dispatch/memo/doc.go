// Package memo caches computed values by key: the grades of judges (JDG-007) and
// accepted answers (RUN-033). A Memo has bounds and evicts the least recently used
// entries beyond them.
//
// Concurrent calls for the same key share one computation. Failures are not
// cached: after a failure the next waiting caller computes the value.
//
// A Memo is safe for concurrent use. It returns no errors; the computation is
// the caller's.
package memo
