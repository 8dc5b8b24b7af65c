// Package mixed has tests that pass, fail and are skipped.
package mixed

// Sum adds.
func Sum(a, b int) int { return a + b }
