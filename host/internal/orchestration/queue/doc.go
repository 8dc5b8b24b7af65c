// Package queue decides when an accepted run may start.
//
// Runs belong to classes. The workers of a class are the number of its runs that may
// execute at once; the workers of the host limit all classes together. Free workers are
// assigned to the classes by weighted round robin; within a class to the highest
// priority, and within a priority to the principals in turn, for each in the order of
// acceptance (RUN-011). A worker is only a counter: the queue has no goroutine and does
// not poll (RUN-012).
package queue
