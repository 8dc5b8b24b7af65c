//go:build race

package dispatch_test

const defaultSimSeeds = 20

const raceDetector = true
