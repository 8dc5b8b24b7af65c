// Command chess is the plugin for chess: the best move of a position, and the
// rules.
//
// Capability chess/engine serves :chess/best-move, with the engine of this
// repository or, if the configuration says so, with any program that speaks
// UCI. Capability chess/rules serves :chess/verify-move and :chess/perft and
// judges the moves of the other one.
package main
