// Package lock reads, writes and compares the lock file. It records the plugin programs that an
// operator approved, by the hash of their bytes, and the permissions of the plugins.
//
// # Main types
//
// A [File] is the content, a [Plugin] one entry of it. [Decode] parses the text strictly,
// [File.Encode] returns the canonical text, [Update] replaces a file on disk.
// [Plugin.CompareProgram] compares an entry with a program before it is executed,
// [Plugin.CompareDescription] with the description of the program; both return [Difference] values
// with the approved value, the value found, and the command that approves the change.
//
// # The text
//
// The syntax is that of ferment.hcl, reduced to data: blocks, texts, whole numbers and lists of
// texts. Any other expression is rejected, so the meaning of a lock file depends only on its bytes.
// The hcl library splits the text into tokens. The parser of the library is not used, because its
// recursion is not bounded. Entries are sorted and contain no times, so equal contents are equal
// bytes on every machine.
//
// # Concurrency
//
// Values are immutable and may be shared. Concurrent calls of [Update], also by several processes,
// are serialized.
//
// # Failure
//
// Decode returns a [*DecodeError] with every problem and its position. A failed Update leaves the
// old file unchanged.
package lock
