// Package edn owns the values that cross every boundary of Ferment: an
// immutable value type, a strict reader and a canonical writer for EDN text, a
// printer for people, a JSON view for the edges, and a mapping to Go types.
//
// # Values
//
// [Value] keeps apart nil, booleans, integers of any size, floats, exact
// decimals, strings, characters, keywords, symbols, lists, vectors, maps, sets,
// instants, UUIDs and tagged literals. The zero Value is nil. A Value is three
// words; sub-values share memory with the value they were taken from, and with
// the text they were read from. [Value.Detach] cuts that tie.
//
// Two values are equal ([Equal]) exactly when their canonical bytes
// ([Value.Canonical]) are equal, and [Compare] orders values by those bytes.
// Maps and sets keep no insertion order: they are iterated in canonical order.
// [Hash] is BLAKE3-256 over the canonical bytes. Canonical form, hash and JSON
// view are version 1 for ever; a change would come with another hash prefix.
// testdata/vectors.json has 300 values with their bytes and hashes, the reference
// for other implementations, and testdata/reader.py is a small one.
//
// # Text
//
// [Read] accepts one form and refuses everything the grammar does not list:
// second forms, duplicate keys, ratios, metadata, NaN. Bytes, depth, nodes and
// string length are limited ([Limits]) before memory is spent, so text of a
// stranger costs at most 64 bytes per node plus twice its length.
//
// [ReadWithPositions] also says where each form stands, [ReadPrefix] reads a
// stream form by form, [WritePretty] writes for people. [ReadJSON] and [WriteJSON]
// are the JSON view.
//
// # Go types
//
// [Decode] and [Encode] map values to structs with the tags of
// olympos.io/encoding/edn. The walk over Go types is done here, because that
// library reports one fault without its place, loses decimals and lists, and
// writes names unchecked; its own types and methods still go through it, in text
// that this package wrote or will read back. No other package imports it.
//
// # Concurrency
//
// A Value never changes and is safe for use by any number of goroutines. The
// hash of a collection is cached with an atomic write. [MapBuilder] is for one
// goroutine.
//
// # Failure
//
// Text that is refused gives a [*SyntaxError] with code, position and path.
// Constructors whose arguments can be wrong return a [*ValueError]. Constructors
// and derivations without an error result (List, Vector, BigInt, Inst, Assoc and
// the like) panic with a *ValueError when a caller breaks their contract: a
// value nested deeper than [MaxDepth], an integer of more than [MaxDigits]
// digits, an instant outside the years 1 to 9999, an operation on the wrong
// kind. Code that composes values of strangers asks [Value.Depth] and
// [Value.Kind] first.
package edn
