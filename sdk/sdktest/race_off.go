//go:build !race

package sdktest

// slowdown is how many times longer than usual a plugin may take.
const slowdown = 1
