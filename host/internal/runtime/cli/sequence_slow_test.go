//go:build slow

package cli_test

import "testing"

// TestMoreSequences runs the sequences of strategies, breakers, scenarios, handles
// and budgets (SCR-004, EVAL-061, EVAL-075).
func TestMoreSequences(t *testing.T) {
	t.Parallel()
	runSequences(t, strategies, circuits, scenarios, handles, spending)
}
