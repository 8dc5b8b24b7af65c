// Package workspace is the part of the command line that works with a context
// engine: the verbs `ferment workspace ...` and `ferment context ...`.
//
// Each verb is one row of a table. The row names the intent, the flags with the
// input keys that they set, the arguments, and the form of the text output. A
// verb calls its intent once; whichever capability the host routes the intent
// to answers. Destructive verbs call it twice: with a dry run whose result they
// show before they ask, and to do it.
//
// [Commands] builds the commands from the table. What they need of the command
// line around them comes in as a [Shell].
//
// Failures that were printed here are returned as the error of Shell.Quiet, all
// others unchanged.
package workspace
