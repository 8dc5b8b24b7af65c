// Package pool assigns model servers to calls: one server for all, or one per
// session up to a limit.
//
// Acquire waits in order for a running server with room, and starts one if
// needed; at the limit, the server that was idle longest is stopped. A Lease
// permits calls to a server until Release. Freeze, Thaw and Quit are for
// operators; Status describes the pool.
//
// The state transitions are decided by worker.Machine; the pool applies them to
// processes and calls under one lock, under which it never blocks. One
// goroutine follows each process. Close stops all processes and returns when
// none is left. All functions are safe for concurrent use.
package pool
