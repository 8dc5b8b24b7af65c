//go:build long

package bandit_test

const seeds = 200
