// Package uci drives a chess engine that is a program of its own and speaks
// the Universal Chess Interface over its standard input and output.
//
// An Engine owns one process at a time. It is started by the first search,
// used for one search after the other, and started anew after a fault, so a
// crash costs one search. Every step has a deadline; an engine that does not
// answer "stop" is killed. Text of the engine is bounded and never trusted:
// the moves it names are checked against the rules before they are returned.
//
// Search may be called from several goroutines; calls are served one by one.
package uci
