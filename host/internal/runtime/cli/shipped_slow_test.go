//go:build slow

package cli_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRandomWalk: 1,000 positions of random games get legal moves through the
// program.
func TestRandomWalk(t *testing.T) {
	t.Parallel()
	w := workshop(t, 2)
	fens := walk(1, 1000)
	// Without a fixed depth the remaining positions are also searched for a
	// mate, which takes most of the time.
	const quick = 970
	for i, out := range append(w.moves(fens[:quick], ":depth 1"), w.moves(fens[quick:], "")...) {
		require.True(t, legal(t, fens[i], text(t, out.Key("move"))), "%s: %s", fens[i], out)
		require.True(t, out.Key("eval").IsInt())
		first, _ := out.Key("pv").Nth(0)
		require.Equal(t, text(t, out.Key("move")), text(t, first))
	}
	for _, fen := range walk(2, 3) {
		got := w.run("act", "chess/best-move", fmt.Sprintf("{:fen %q :depth 1}", fen), "-o", "edn")
		require.Equal(t, 0, got.code, got.stderr)
		require.True(t, legal(t, fen, text(t, got.value(t).Key("result").Key("out").Key("move"))))
	}
}
