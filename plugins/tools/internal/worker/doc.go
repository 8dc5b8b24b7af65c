// Package worker carries out one call of an effect tool in a process that can do
// nothing else.
//
// Crew.Run starts the binary again as a worker, gives it the task on standard
// input and takes its answer. Main is the worker: it reads the rules of the call
// (the tool, its scope, the place of a file), has the kernel hold it to them
// (package confine), and only then reads the call itself, acts, answers and
// ends. The worker has no descriptor but its three streams and no environment;
// it ends when whoever started it does. One that was started ahead waits for its
// rules and knows nothing; it serves one call like any other, or none.
//
// A Crew may be used from many goroutines. Failure: every error is a
// *contract.Error. A worker that ends without an answer leaves open whether a
// changing call was done, and the error says so.
package worker
