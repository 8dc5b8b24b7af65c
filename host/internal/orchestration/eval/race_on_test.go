//go:build race

package eval_test

// The race detector makes each plan ten times as dear.
const usualSimPlans = 400
