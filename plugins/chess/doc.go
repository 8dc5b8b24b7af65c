// Command chess is the plugin for chess: best moves and the rules.
//
// Capability chess/engine serves :chess/best-move, with the engine of this
// repository or, if configured, with any UCI program. Capability chess/rules
// serves :chess/verify-move and :chess/perft and judges the moves of the first.
package main
