//go:build !race

package dispatch_test

const usualSimSeeds = 40

const raceDetector = false
