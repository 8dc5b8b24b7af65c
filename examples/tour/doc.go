// Command tour shows what Ferment is for, on real input and in one run.
//
// It makes a plan with four questions that run side by side: the best move of
// a chess position, a sudoku as a formula, the test suite of a small Go
// module, and a summary of a page of Darwin. It starts "bin/ferment run" on
// it, follows the progress that the program writes to standard error, and
// kills the process of the chess engine with SIGKILL while it thinks. The run
// must end with accepted answers all the same, because the call moves to the
// next candidate; the report says so.
//
// Run it from the root of the repository: "make run".
package main
