// Package workspace is the part of the command line for a context engine: the verbs `ferment
// workspace ...` and `ferment context ...`.
//
// Each verb is one row of a table. The row has the intent, the flags with the input keys that they
// set, the arguments, and the form of the text output. A verb calls its intent once, and the host
// selects the capability. Destructive verbs call it twice: first with a dry run, whose result they
// show before they ask.
//
// [Commands] creates the commands from the table. A [Shell] gives them access to the surrounding
// command line.
//
// Failures that were already printed are returned as the error of Shell.Quiet, all others
// unchanged.
package workspace
