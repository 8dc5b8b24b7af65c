package movegen_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/chess/internal/board"
	"github.com/fermenthq/ferment/plugins/chess/internal/corpus"
	"github.com/fermenthq/ferment/plugins/chess/internal/movegen"
)

func perft(p movegen.Position, depth int) int {
	if depth == 0 {
		return 1
	}
	n := 0
	for _, move := range p.Moves() {
		n += perft(p.Play(move), depth-1)
	}
	return n
}

// The generator reproduces the well-known perft counts: castling, pins,
// captures en passant and promotions occur in these positions.
func TestPerft(t *testing.T) {
	for fen, want := range map[string][]int{
		"rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1":             {20, 400, 8902},
		"r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1": {48, 2039},
		"8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1":                            {14, 191, 2812, 43238},
		"r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1":     {6, 264, 9467},
		"rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8":            {44, 1486},
	} {
		p, err := movegen.Parse(fen)
		require.NoError(t, err)
		for i, n := range want {
			assert.Equal(t, n, perft(p, i+1), "%s at depth %d", fen, i+1)
		}
	}
}

// The plugin's library and the generator agree: the same legal moves and the
// same checks in 1,000 positions of random games and in every position with a
// forced mate.
func TestRulesOfThePlugin(t *testing.T) {
	fens := corpus.Walk(11, 1000)
	mates, err := corpus.Mates()
	require.NoError(t, err)
	for _, m := range mates {
		fens = append(fens, m.FEN)
	}
	for _, fen := range fens {
		theirs, err := movegen.Parse(fen)
		require.NoError(t, err)
		pos, err := board.Parse(fen)
		require.NoError(t, err)
		var ours []string
		for _, m := range pos.ValidMoves() {
			ours = append(ours, board.UCI(&m))
		}
		slices.Sort(ours)
		require.Equal(t, theirs.Moves(), ours, fen)
		require.Equal(t, theirs.Check(), board.InCheck(pos), fen)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, fen := range []string{"", "8/8 w - -", "ppppppppp/8/8/8/8/8/8/8 w - -"} {
		_, err := movegen.Parse(fen)
		assert.Error(t, err, fen)
	}
}
