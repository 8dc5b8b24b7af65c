// Package lock reads, writes and compares the lock file: the record of the
// plugin programs that an operator approved, by the hash of their bytes, and of
// their permissions.
//
// # Main types
//
// A [File] is the content, a [Plugin] one entry of it. [Decode] parses the text
// strictly, [File.Encode] returns the canonical text, [Update] replaces a file
// on disk. [Plugin.CompareProgram] compares an entry with a program before it
// is executed, [Plugin.CompareDescription] with the description of the program;
// both return [Difference] values with the approved value, the value found, and
// the command that resolves it.
//
// # The text
//
// The syntax is that of ferment.hcl, reduced to data: blocks, texts, whole
// numbers and lists of texts. Any other expression is rejected, so the meaning
// of a lock file depends only on its bytes. The hcl library splits the text
// into tokens; the parser is not recursive, because that of the library
// recurses without a bound. Entries are sorted and contain no times, so equal
// contents are equal bytes on every machine.
//
// # Concurrency
//
// Values are immutable and may be shared. [Update] may be called by several
// processes at once: they wait for each other.
//
// # Failure
//
// Decode returns a [*DecodeError] with every problem and its position. A failed
// Update leaves the old file unchanged.
package lock
