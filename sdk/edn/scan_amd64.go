package edn

// plainBlocks is plainRun for the part of s that is made of whole blocks of 16
// bytes: at most that, and exactly plainRun if it ends within.
//
//go:noescape
func plainBlocks(s string) int
