// Package confine restricts what a process may do, enforced by the kernel.
//
// # Types
//
// A [Policy] describes what a process may do. [Probe] returns as a [Support]
// the layers of this machine; [Policy.Check] lists the parts of a policy that
// it cannot enforce, and [Policy.Weaknesses] what stays open although the
// policy is enforced.
//
// There are two ways to confine. [Apply] restricts the calling process, for a
// worker with one task. [Start] runs another program through a trampoline: the
// executable of the caller starts once more under a hidden subcommand, reads its
// orders from an inherited descriptor, restricts itself and executes the
// program. Package launch does that for its callers.
//
// # Layers
//
// At level limits: resource limits, no core files, no new privileges. At level
// strict, in addition: Landlock for files, TCP ports and, if the kernel
// supports them, signals, abstract sockets and named unix sockets; no
// capabilities; and a seccomp filter for what Landlock does not cover. The
// filter rejects sockets that the policy does not need, multipath TCP and TCP
// fast open (which bypass the port rules), io_uring (which bypasses the
// filter), new namespaces, programs and processes unless the policy permits
// some, memory, queues and semaphores shared by all processes of a user, and
// limits and priorities of other processes. Under a memory limit it rejects the
// kinds of memory that the limit does not count. Unless [Policy.Attributes] is
// set it also rejects changes of modes, owners and times, which Landlock does
// not cover, both by path and by a descriptor open for reading. It always
// rejects setuid and setgid modes (except for a new file of openat2, whose mode
// it cannot see), reading extended attributes by path, and, unless the policy
// permits other programs, watching the names in directories.
//
// A program that is started through the trampoline also carries a mark (see
// [NewMark]) that identifies all of its descendants, and is killed before its
// parent when memory runs out.
//
// What stays open on every kernel: a process can detect whether a file exists,
// its size and the target of a symbolic link, even if it may not read the file;
// a program that may run others may run any code in itself and in them, since
// it may load what it has written; and a process with a network may listen on a
// TCP port that the system chooses, whatever ports it may bind.
//
// # Threads
//
// Apply restricts all threads of the process: libpsx sets Landlock,
// no-new-privileges and capabilities on each, the kernel synchronizes the
// filter. The trampoline restricts itself in the same way and executes the
// program from one thread.
//
// # Failure
//
// An [Error] names the layer, the path if one is at fault, and the cause. A
// failed Start applies nothing to the caller. After a failed Apply the process
// may be restricted in part and must end. On systems other than Linux
// everything compiles, Probe reports nothing, and only policies of level none
// or with BestEffort pass.
package confine
