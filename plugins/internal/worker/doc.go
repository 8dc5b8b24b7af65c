// Package worker runs one call of a tool in a confined process.
//
// Crew.Run starts the binary again as a worker, sends it a Task on standard
// input and reads its answer. Main is the worker: it reads the rules of the
// task, opens what the call needs and has the kernel confine it (package
// confine), and only then reads the call itself, acts, answers and ends. What
// rules and call are, and how the worker confines itself, is up to the plugin:
// see Hold. The worker has no descriptors but its three streams and no
// environment; it ends with its parent. A prestarted worker waits for its rules
// without any data of a call, and serves at most one call.
//
// A Crew is safe for concurrent use. Every error is a *contract.Error. If a
// worker ends without an answer, it is unknown whether a changing call was
// done, and the error says so.
package worker
