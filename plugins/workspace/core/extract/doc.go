// Package extract describes files without a model.
//
//	extract/facts       size, kind of data, encoding, lines; any file, of a large one
//	                    only size and kind
//	extract/text        language, title or headings, opening comment, open tasks; text
//	extract/go-outline  package and exported names with the first sentence of their
//	                    documentation; Go source that parses
//
//	extract/auto        the most specific of these for the file
//
// The first line of every description stands alone, because summaries of directories show only
// that.
//
// Equal bytes, names and versions give equal text on every machine. An extractor has a version,
// which is part of the basis of its frames: a better extractor makes them stale.
//
// All functions are pure and safe for concurrent use. The error types are generate/binary for bytes
// that are not text and input/invalid for source that does not parse.
package extract
