// Package launch starts, watches and stops the processes of plugins. The host,
// the conformance suite and plugins that run other programs share it, so that
// one set of answers exists to the ways in which a child process can go wrong.
//
// # Types
//
// [Process] is a child in a session of its own. Its end is noticed by waiting
// for the process, never by the end of a pipe, because a grandchild may hold a
// pipe open for ever. [Runner] puts a Process behind the runner interface of
// go-plugin: it lets one handshake line through, keeps everything else as
// [Line] values, and explains an exit with a [Report]. [Stop] walks down a
// ladder of [Step] values, each with a hard deadline. [Reaper] is a second
// process that kills what a host started that died without stopping it.
// [RuntimeDir] is the private directory in which the sockets of one host lie.
// [Tail], [LogFile] and [Environment] serve those, and [Listeners] tells who has a
// port that a child was to have. A program that imports this package
// is its own reaper, and confines what it starts (package confine), under hidden
// subcommands that run before its main function.
//
// # Three ways in which a child learns that its parent is gone
//
// The kernel sends SIGKILL when the thread that started it ends (Linux), its
// standard input ends, and the reaper kills its family. The first two reach the
// child, the third its descendants too: all members of its session and, if it was
// started with a policy on Linux, all processes that carry its mark (package
// confine), whatever sessions they made for themselves. The same family is killed
// when the child ends by itself or is stopped.
//
// # Concurrency and failure
//
// All methods may be called from many goroutines. Nothing here waits for a
// child without a limit, except a receive from a Done channel. A child that
// cannot be started is an error of Start; everything later is told by Done and
// Exit. On systems other than Linux a family is approximated by its process
// group and there is no death signal.
package launch
