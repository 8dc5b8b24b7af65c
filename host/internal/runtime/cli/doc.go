// Package cli is the command line of the host: it parses arguments, calls
// package daemon, and prints results.
//
// Data goes to standard output, everything else to standard error. Each
// command has three output formats (text for people, JSON and EDN for
// programs) and exits with a code of package contract. Rules that other
// interfaces of the host need too do not belong here.
//
// Only one call of Main may run at a time; it handles the interrupt signal
// while it runs.
package cli
