package edn

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The index of lines returns the same positions as a scan of the text.
func TestPositionsIndexAgreesWithScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab ż\n\r,"))).Draw(t, "text")
		if rapid.Bool().Draw(t, "mark") {
			text = byteOrderMark + text
		}
		p := &Positions{text: text}
		offset := rapid.IntRange(0, len(text)).Draw(t, "offset")
		want := positionAt(text, offset)
		if offset > 0 && offset < len(text) && text[offset-1] == '\r' && text[offset] == '\n' {
			return // no form begins between CR and LF
		}
		require.Equal(t, want, p.position(offset))
	})
}
