//go:build !slow

package store

// growthTurns is the length of the longer conversation; 0: a short one.
const growthTurns = 0
