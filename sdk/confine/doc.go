// Package confine takes rights away from a process and has the kernel hold it
// to what is left.
//
// # Types
//
// A [Policy] says what a process may do. [Probe] tells as a [Support] which
// layers this machine has; [Policy.Check] lists what of a policy it cannot hold,
// and [Policy.Weaknesses] what stays open although the policy is held.
//
// Two ways lead into confinement. [Apply] restricts the calling process, for a
// worker that does one thing and ends. [Start] runs another program through a
// trampoline: the executable of the caller starts once more under the hidden
// subcommand [Command], takes its orders over an inherited descriptor, restricts
// itself and becomes the program. Package launch does that for its callers.
//
// # Layers
//
// At level limits: resource limits, no core files, no new privileges. At level
// strict, on top: Landlock for files, TCP ports and, where the kernel knows
// them, signals, abstract sockets and named unix sockets; no capabilities; a
// system call filter for what Landlock does not see. The filter refuses sockets
// that the policy has no use for, multipath TCP and TCP fast open (which slip by
// the port rules), io_uring (which slips by the filter), new namespaces,
// programs and processes unless the policy has some, memory, queues and
// semaphores that are shared by all processes of a user, and limits and
// priorities of other processes. Under a limit of memory it refuses the kinds of
// memory that the limit does not count. Unless [Policy.Attributes] is set it also
// refuses to change modes, owners and times, which Landlock does not cover: not
// by path, nor of a file that is open for reading. It always refuses to make a
// file setuid or setgid (but for a new file of openat2, whose mode it cannot see), to read extended attributes by path, and, unless the
// policy has programs of others, to watch the names in directories.
//
// A program that is started through the trampoline also carries a mark (see
// [NewMark]) by which all of its descendants are found, and is ended before its
// parent when memory runs out.
//
// What stays open on every kernel: a process may learn whether a file exists,
// how large it is and where a symbolic link leads, also where it may not read; a
// program that may run others may
// run any code in itself and in them, since it may load what it has written; and
// a process with a network may listen on a TCP port that the system chooses,
// whatever ports it may bind.
//
// # Threads
//
// Apply restricts all threads of the process: Landlock, no-new-privileges and
// capabilities are set on every one by libpsx, the filter is synchronised by the
// kernel. The trampoline restricts itself in the same way and becomes the
// program from one thread.
//
// # Failure
//
// An [Error] names the layer, the path if one is at fault, and the cause.
// Nothing is applied in part unless the error says so: a process for which Apply
// failed must end. On systems other than Linux everything compiles, Probe
// reports nothing, and only policies of level none or with BestEffort pass.
package confine
