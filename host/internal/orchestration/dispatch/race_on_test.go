//go:build race

package dispatch_test

const usualSimSeeds = 20

const raceDetector = true
