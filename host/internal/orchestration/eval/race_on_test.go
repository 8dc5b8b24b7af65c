//go:build race

package eval_test

// The race detector makes each plan ten times slower and each stack frame larger.
const (
	usualSimPlans = 400
	planBytes     = 384 << 10
)
