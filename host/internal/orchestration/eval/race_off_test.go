//go:build !race

package eval_test

const defaultSimPlans = 10_000
