//go:build !race

package eval_test

const (
	usualSimPlans = 1000
	planBytes     = 256 << 10
)
