// Package engine is the embedded chess engine: iterative deepening over
// alpha-beta with a quiescence search, a transposition table and a search for
// short mates that runs first.
//
// It is built on the rules library, so it is exact about the rules and modest
// in speed. With a depth and no time limit, the result is a function of the
// position alone. A Search stops within a few milliseconds when its context
// ends and then returns the best move of the last finished depth.
//
// Scores are centipawns for the side to move; a forced mate in n plies is
// MateScore - n, being mated in n plies -MateScore + n.
package engine
