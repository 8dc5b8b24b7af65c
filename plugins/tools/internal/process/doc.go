// Package process runs one program within a scope.
//
// The program is started through the trampoline of package confine, so that the kernel confines it
// to its working directory, the allowed programs and its limits. A bounded part of its output is
// kept; the rest is read and dropped, so that the program never blocks on output. At its timeout it
// gets SIGTERM, and two seconds later its whole session is killed, which no child can leave.
//
// Run is safe for concurrent use. Every error is a *contract.Error; an error that stopped the
// program says that the outcome is unknown.
package process
