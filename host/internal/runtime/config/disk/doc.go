// Package disk reads the files that a configuration names.
//
// # Main types
//
// [ReadConfig] reads a file of the configuration, [ReadBelow] one below a directory that it must
// not leave. [PrintedName] returns the display name of a file, [Neighbour] the existing file that a
// misspelt name probably means.
//
// # Concurrency
//
// All functions may be called concurrently.
//
// # Failure
//
// A [ReadError] has the type of its diagnostic and a next step. Only regular files are read,
// because reading a pipe or a device may block or never end.
package disk
