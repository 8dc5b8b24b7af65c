// Package movegen lists the legal moves of a chess position, for the tests of
// the plugin. It shares no code with the library that the plugin uses, and
// favors obvious correctness over speed: it makes every move of every piece and
// drops those after which the own king can be captured.
package movegen
