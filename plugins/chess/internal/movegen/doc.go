// Package movegen lists the legal moves of a chess position, for the tests of
// the plugin. It shares no code with the library that the plugin plays by, and
// is written to be plainly right rather than quick: it makes every move that a
// piece can make and drops those after which the own king can be captured.
package movegen
