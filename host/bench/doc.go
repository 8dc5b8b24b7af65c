// Command bench measures Ferment against its peers in one run and prints the
// ratios.
//
// Absolute times say more about the machine than about the program, so most
// figures are compared with those of a peer that does the same work on the same
// machine. The rounds of both alternate, and their medians are compared. The comment
// of each part names its peer: mostly a library, a program, or the minimum that every
// implementation needs.
//
//	make bench                the whole table
//	make bench BENCH=-smoke   few rounds: it proves that the benchmarks run
//	make bench-workspace      the part about workspaces, as JSON too; a missed goal fails
package main
