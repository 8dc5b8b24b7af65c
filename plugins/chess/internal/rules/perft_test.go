package rules

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/chess/internal/board"
)

// The counts are the well-known reference values for move generators.
func TestPerftKnownCounts(t *testing.T) {
	for _, c := range []struct {
		name, fen string
		nodes     []int64
	}{
		{"start", "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", []int64{1, 20, 400, 8902}},
		{"castling and pins", "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1", []int64{1, 48, 2039}},
		{"en passant pins", "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1", []int64{1, 14, 191, 2812, 43238}},
		{"promotions", "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1", []int64{1, 6, 264, 9467}},
		{"mirror", "rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8", []int64{1, 44, 1486}},
	} {
		pos, err := board.Parse(c.fen)
		require.NoError(t, err, c.name)
		for depth, want := range c.nodes {
			got, err := Perft(context.Background(), pos, depth)
			require.NoError(t, err)
			assert.Equal(t, want, got, "%s at depth %d", c.name, depth)
		}
	}
}

func TestPerftStopsWithItsContext(t *testing.T) {
	pos, err := board.Parse("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = Perft(ctx, pos, 5)
	require.ErrorIs(t, err, context.Canceled)
}
