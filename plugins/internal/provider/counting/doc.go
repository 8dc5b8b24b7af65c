// Package counting counts the tokens of one model: by its server, which is one
// request, by a table, or by length.
//
// A Counting is safe for concurrent use. What does not count in time is not waited
// for: the next way counts, and a server that did not answer is left alone for a
// minute.
package counting
