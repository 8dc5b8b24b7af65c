//go:build !race

package dispatch_test

const defaultSimSeeds = 200

const raceDetector = false
