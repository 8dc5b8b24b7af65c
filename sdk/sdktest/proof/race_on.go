//go:build race

package proof

const detector = true
