//go:build slow

package store

const growthTurns = 1000
