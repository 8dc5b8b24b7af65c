package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// CLI-001: a table fits a screen, and every word of it is shown.
func TestTablesFit(t *testing.T) {
	word := rapid.StringMatching(`[a-zé/]{1,30}`)
	cell := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(word, 0, 9).Draw(t, "words"), " ") })
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "columns")
		// The first column is a name; longer ones than a screen are not cut.
		row := rapid.Custom(func(t *rapid.T) []string {
			return append([]string{word.Draw(t, "name")}, rapid.SliceOfN(cell, n-1, n-1).Draw(t, "cells")...)
		})
		head := make([]string, n)
		for i := range head {
			head[i] = rapid.StringMatching(`[a-z]{1,12}`).Draw(t, "head")
		}
		rows := rapid.SliceOfN(row, 0, 4).Draw(t, "rows")
		var out strings.Builder
		require.NoError(t, table(&out, head, rows))
		for line := range strings.Lines(out.String()) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > tableWidth {
				t.Fatalf("%d columns: %q", n, line)
			}
		}
		for _, row := range rows {
			for _, cell := range row {
				for _, w := range strings.Fields(cell) {
					if !strings.Contains(out.String(), w) {
						t.Fatalf("%q is missing in\n%s", w, out.String())
					}
				}
			}
		}
	})
	var out strings.Builder
	require.NoError(t, table(&out, []string{"plugin", "state", "what was found"}, [][]string{{"a", "ok", strings.Repeat("words ", 20) + "end"}, {"b", "weak", ""}}))
	assert.Equal(t, "plugin  state  what was found\n"+
		"a       ok     words words words words words words words words words words words words words words\n"+
		"               words words words words words words end\n"+
		"b       weak\n", out.String())
}
