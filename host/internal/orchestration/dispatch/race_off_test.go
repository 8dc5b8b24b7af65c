//go:build !race

package dispatch_test

const usualSimSeeds = 100

const raceDetector = false
