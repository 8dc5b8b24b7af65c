//go:build !race

package eval_test

const (
	usualSimPlans = 2000
	planBytes     = 256 << 10
)
