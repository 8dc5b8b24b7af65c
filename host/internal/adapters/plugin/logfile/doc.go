// Package logfile writes and reads the log of a plugin: a [File] that is rotated
// when it gets too large, and a [Reader] that follows it from another process.
package logfile
