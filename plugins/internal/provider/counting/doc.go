// Package counting counts the tokens of one model: by its server, which takes
// one request, by a table, or by length.
//
// A Counting is safe for concurrent use. A method that does not count in time
// is replaced by the next one, and a server that did not answer is not asked
// for a minute.
package counting
