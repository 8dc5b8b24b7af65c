// Package lock reads, writes and compares the lock file: the record of which
// plugin programs an operator approved, by the hash of their bytes, and of what
// these may do.
//
// # Main types
//
// A [File] is the content, a [Plugin] one entry of it. [Decode] reads the text
// strictly, [File.Encode] gives the one text of a content, [Update] replaces a
// file on disk. An entry is held against what is there by
// [Plugin.CompareProgram], before anything is executed, and by
// [Plugin.CompareDescription], when the program said what it is; both give
// [Difference] values, which know what was approved, what was found, and which
// command resolves it.
//
// # The text
//
// The syntax is that of ferment.hcl, reduced to data: blocks, texts, whole
// numbers and lists of texts. An expression of any other kind is refused, so
// what a lock file says depends on nothing but its bytes. The text is cut into
// tokens by the library and read by a parser without recursion, because the
// parser of the library recurses without a bound. Entries are sorted and there
// are no times, so equal contents are equal bytes on every machine.
//
// # Concurrency
//
// Values are not changed after they were made and may be shared. [Update] may be
// called by several processes at once: they wait for each other.
//
// # Failure
//
// Decode gives a [*DecodeError] with every problem and its place. A failed
// Update leaves the old file as it was.
package lock
