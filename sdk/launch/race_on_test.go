//go:build race

package launch

const raceDetector = true
