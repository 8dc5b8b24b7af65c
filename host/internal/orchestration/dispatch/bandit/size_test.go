//go:build !long

package bandit_test

// seeds is the number of simulations; the tag long has all of LRN-006.
const seeds = 60
