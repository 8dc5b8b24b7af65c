//go:build race

package sdktest

// slowdown is the factor for time limits under the race detector.
const slowdown = 5
