//go:build !race

package eval_test

const usualSimPlans = 2000
