// Package cli is the command line of the host: it reads arguments, hands them
// to the daemon package, and prints what comes back.
//
// Data goes to standard output, everything else to standard error. Each verb
// knows three forms of output (text for people, JSON and EDN for programs) and
// ends with one of the exit codes of package contract. Nothing is decided here
// that another way into the host would have to decide again.
//
// Main may be called once per process at a time; it owns the interrupt signal
// while it runs.
package cli
