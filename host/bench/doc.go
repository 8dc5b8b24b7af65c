// Command bench measures Ferment against its peers in one run and prints the
// ratios.
//
// Absolute times say more about the machine than about the program, so every
// figure stands beside that of a peer doing the same work in the same process
// list: rounds of both alternate, the median of each counts. The peers are the
// EDN library of Go, encoding/json, a JSON Schema validator, the parser and the
// formatter of hclsyntax and hclwrite, a process that does nothing, a bare
// go-plugin echo with the same transport, payload and collector settings, and a
// client that reads and decodes the stream of the same model server itself.
//
//	make bench                the whole table
//	make bench BENCH=-smoke   few rounds: it proves that the benchmarks run
//	make bench-workspace      the part about workspaces, as JSON too; a missed goal fails
package main
