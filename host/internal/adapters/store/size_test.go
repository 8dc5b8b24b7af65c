//go:build !slow

package store

// Sizes of tests that take long.
const (
	growthTurns = 0 // turns of the longer conversation; 0: a short one
	killPoints  = 4
	cutEvery    = 9 // frames of the log
)
