// Package cli is the command line of the host: it parses arguments, calls package daemon, and
// prints results.
//
// Data is written to standard output, everything else to standard error. Each command has three
// output formats (text for people, JSON and EDN for programs) and ends with a code of package exit.
// Rules that other interfaces of the host also need are not in this package.
//
// Only one call of Main may run at a time, because it handles the interrupt signal while it runs.
package cli
