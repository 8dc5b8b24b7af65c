// Package process runs one program within a scope.
//
// The program is started through the trampoline of package confine and so held
// by the kernel to its working directory, the allowed programs and its limits.
// Its output is kept up to a bound; what goes beyond is read and dropped, so
// that a flood stops nobody. When its time is up it is asked to end, and two
// seconds later killed with everything in its session, which nothing that it
// starts can leave.
//
// Run may be called from many goroutines. Failure: every error is a
// *contract.Error; one after the start says that the outcome is unknown.
package process
