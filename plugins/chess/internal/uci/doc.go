// Package uci drives an external chess engine that speaks the Universal Chess
// Interface over its standard input and output.
//
// An Engine owns one process at a time. The first search starts it, searches
// run one after the other, and it is restarted after a failure, so a crash
// costs one search. Every step has a deadline; an engine that does not answer
// "stop" is killed. Output of the engine is bounded and not trusted: its moves
// are checked against the rules before they are returned.
//
// Search is safe for concurrent use; calls run one at a time.
package uci
