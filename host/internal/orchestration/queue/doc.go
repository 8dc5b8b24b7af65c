// Package queue decides when an accepted run may start.
//
// Runs belong to classes. A class has workers, the number of its runs that may be
// under way at once, and all classes share the workers of the host. A free worker
// goes to the classes in turn, by weight; within a class to the highest priority, and
// within a priority to the principals in turn, each in the order of acceptance
// (RUN-011). The queue is a counter behind a lock: it has no goroutine and polls
// nothing (RUN-012).
package queue
