// Package worker runs one call of an effect tool in a confined process.
//
// Crew.Run starts the binary again as a worker, sends it the task on standard
// input and reads its answer. Main is the worker: it reads the rules of the
// call (the tool, its scope, the place of a file), has the kernel confine it to
// them (package confine), and only then reads the call itself, acts, answers
// and ends. The worker has no descriptors but its three streams and no
// environment; it ends with its parent. A prestarted worker waits for its rules
// without any data of a call, and serves at most one call.
//
// A Crew is safe for concurrent use. Every error is a *contract.Error. If a
// worker ends without an answer, it is unknown whether a changing call was
// done, and the error says so.
package worker
