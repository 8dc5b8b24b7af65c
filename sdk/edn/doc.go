// Package edn implements the values that cross every boundary of Ferment: an
// immutable value type, a strict reader and a canonical writer for EDN text, a
// pretty printer, a JSON view, and a mapping to Go types.
//
// # Values
//
// [Value] distinguishes nil, booleans, integers of any size, floats, exact
// decimals, strings, characters, keywords, symbols, lists, vectors, maps, sets,
// instants, UUIDs and tagged literals. The zero Value is nil. A Value has 24
// bytes; it shares memory with the value it was taken from and with the text it
// was read from. [Value.Detach] returns a copy without shared memory.
//
// Two values are equal ([Equal]) exactly when their canonical bytes
// ([Value.Canonical]) are equal, and [Compare] orders values by those bytes.
// Maps and sets keep no insertion order: they are iterated in canonical order.
// [Hash] is BLAKE3-256 over the canonical bytes. Canonical form, hash and JSON
// view never change; a new version would have another hash prefix.
// testdata/vectors.json has 300 values with their bytes and hashes, as the
// reference for other implementations, and testdata/reader.py is a small one.
//
// # Text
//
// [Read] accepts one form and rejects everything outside of the grammar: second
// forms, duplicate keys, ratios, metadata, NaN. Bytes, depth, nodes and string
// length are limited ([Limits]) before memory is allocated, so untrusted text
// costs at most 64 bytes per node plus twice its length.
//
// [ReadWithPositions] also returns the position of each form, [ReadPrefix]
// reads a stream form by form, [WritePretty] writes text for people. [ReadJSON]
// and [WriteJSON] are the JSON view.
//
// # Go types
//
// [Decode] and [Encode] map values to structs with the tags of
// olympos.io/encoding/edn. This package traverses Go types itself, because that
// library reports one error without its path, loses decimals and lists, and
// does not validate names. Its own types and methods are still supported, with
// text that this package wrote or will read strictly. No other package imports
// the library.
//
// # Concurrency
//
// A Value is immutable and safe for concurrent use. The hash of a collection is
// cached with an atomic write. [MapBuilder] is not safe for concurrent use.
//
// # Failure
//
// Rejected text returns a [*SyntaxError] with code, position and path.
// Constructors with arguments that can be invalid return a [*ValueError].
// Constructors and derivations without an error result (List, Vector, BigInt,
// Inst, Assoc and the like) panic with a *ValueError if a caller violates their
// contract: a value nested deeper than [MaxDepth], an integer of more than
// [MaxDigits] digits, an instant outside the years 1 to 9999, an operation on
// the wrong kind. Code that composes untrusted values checks [Value.Depth] and
// [Value.Kind] first.
package edn
