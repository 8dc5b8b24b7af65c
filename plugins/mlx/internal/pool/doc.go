// Package pool gives calls a model server each: one for all, or one for each
// session up to a number.
//
// Acquire waits in order for a server that runs and has room, and starts one if
// that is what it takes; where there are as many as may be, the one that was
// idle for the longest is stopped. A Lease is the right to ask a server until
// Release. Freeze, Thaw and Quit are for operators, Status says how things are.
//
// What follows from what is decided by worker.Machine; the pool brings it
// together with processes and calls, under one lock and without waiting under
// it. One goroutine stays with each process. Close stops all of them and leaves
// none behind. Everything may be called from many goroutines.
package pool
