//go:build !race

package plugin

const raceDetector = false
