// Package launch starts, watches and stops the processes of plugins. The host,
// the conformance suite and plugins that run other programs share it.
//
// # Types
//
// [Process] is a child in its own session. Its exit is detected by waiting for
// the process, never by the end of a pipe, because a grandchild may hold a pipe
// open forever. [Runner] puts a Process behind the runner interface of
// go-plugin: it passes one handshake line on, records all other output as
// [Line] values, and explains an exit with a [Report]. [Stop] runs a sequence
// of [Step] values, each with a hard deadline. [Reaper] is a second process
// that kills the children of a host that died without stopping them.
// [Tail] and [Environment] are helpers of these; [Listeners] reports the
// processes that listen on a port. Supervisors compute their restarts with
// [Backoff] and [Recent]. A program that imports this package is its own reaper
// and its own trampoline (package confine), under hidden subcommands that run
// before its main function.
//
// # Death of the parent
//
// When the parent dies, the kernel sends SIGKILL to the child (Linux), the
// standard input of the child ends, and the reaper kills its family. The first
// two reach only the child. The family includes its descendants: all members of
// its session and, if it was started with a policy on Linux, all processes that
// carry its mark (package confine), in whatever session they are. The same
// family is killed when the child ends by itself or is stopped.
//
// # Concurrency and failure
//
// All methods are safe for concurrent use. Every wait for a child has a limit,
// except a receive from a Done channel. A child that cannot be started is an
// error of Start; later failures are reported by Done and Exit. On systems
// other than Linux the family is the process group, and there is no death
// signal.
package launch
