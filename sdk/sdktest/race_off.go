//go:build !race

package sdktest

// slowdown is the factor for time limits.
const slowdown = 1
