//go:build race

package sdktest

// slowdown is how many times longer than usual a plugin may take: the race detector
// makes it so much slower.
const slowdown = 5
