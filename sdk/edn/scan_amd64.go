package edn

// plainBlocks is plainRun for the blocks of 16 bytes at the start of s: it
// returns at most their length, and exactly plainRun if that is smaller.
//
//go:noescape
func plainBlocks(s string) int
