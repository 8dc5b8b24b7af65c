// Package worker carries out one call of an effect tool in a process that can do
// nothing else.
//
// Run starts the binary again as a worker, gives it the task on standard input
// and takes its answer. Main is the worker: it reads the task, finds what the
// call is about, has the kernel hold it to that (package confine), acts, answers
// and ends. The worker has no descriptor but its three streams and no
// environment; it ends when whoever started it does.
//
// Run may be called from many goroutines. Failure: every error is a
// *contract.Error. A worker that ends without an answer leaves open whether a
// changing call was done, and the error says so.
package worker
