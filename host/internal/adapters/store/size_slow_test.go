//go:build slow

package store

const (
	growthTurns = 1000
	killPoints  = 60
	cutEvery    = 1
)
