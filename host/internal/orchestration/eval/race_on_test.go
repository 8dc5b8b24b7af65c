//go:build race

package eval_test

// The race detector makes each plan ten times slower.
const usualSimPlans = 400
