// Package id computes the ids of the workspace engine: of contents, nodes,
// bases, frames, records and whole states.
//
// # Encoding
//
// Every hash except git's is ALG(E). E is "ferment", a zero byte, the version
// byte 1, the byte of the algorithm, the byte of the [Domain], and the fields of
// that domain. A field is its length as 64 bits, most significant byte first,
// and its bytes. A list is the number of its items as 64 bits and each item as a
// field; the bytes of an item are its own fields. A number is a field of 8
// bytes. An id inside another id is a field with the byte of its algorithm and
// its sum; an absent id is an empty field. The bytes of a blob have no length,
// so a file can be hashed while it is read. No two inputs have the same E.
//
// # Git
//
// The schemes [GitSHA1] and [GitSHA256] use git's object ids as content ids: of
// a blob for files and links, of a tree for directories. All other ids use
// BLAKE3 in these schemes.
//
// # Text
//
// An [ID] is written as kind, version, algorithm and lower-case hexadecimal
// digits, such as n1-b3-9c04…, which is safe in shells and file names.
//
// # Concurrency and failure
//
// All functions are pure and safe for concurrent use. A [Blob] belongs to one
// goroutine. Functions that parse or check an id, a sum or a scheme fail with an
// error of type input/invalid that names the reason.
package id
