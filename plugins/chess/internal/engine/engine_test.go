package engine

import (
	"context"
	"testing"
	"time"

	"github.com/corentings/chess/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/chess/internal/board"
	"github.com/fermenthq/ferment/plugins/chess/internal/corpus"
)

func position(t *testing.T, fen string) *chess.Position {
	t.Helper()
	pos, err := board.Parse(fen)
	require.NoError(t, err)
	return pos
}

// At least 190 of 200 mates in one to three are found: the move keeps a mate of
// that length by the plain search, the line is legal, and the score reports the
// mate.
func TestSearchFindsMates(t *testing.T) {
	all, err := corpus.Mates()
	require.NoError(t, err)
	found := 0
	for _, m := range all {
		pos := position(t, m.FEN)
		r, err := Search(context.Background(), pos, Limits{}, DefaultOptions())
		require.NoError(t, err)
		if r.Mate < 1 || r.Mate > m.Moves || !corpus.Mated(pos.Update(r.Best), m.Moves-1) {
			t.Logf("missed mate in %d: %s (mate %d)", m.Moves, m.FEN, r.Mate)
			continue
		}
		assert.Equal(t, MateScore-(2*r.Mate-1), r.Score, m.FEN)
		playLine(t, pos, r.PV)
		found++
	}
	assert.GreaterOrEqual(t, found, 190, "of %d", len(all))
}

func playLine(t *testing.T, pos *chess.Position, line []*chess.Move) *chess.Position {
	t.Helper()
	for _, m := range line {
		legal, err := board.Find(pos, board.UCI(m))
		require.NoError(t, err, "in %s", pos.String())
		pos = pos.Update(legal)
	}
	return pos
}

func TestSearchPlaysChess(t *testing.T) {
	for _, c := range []struct{ name, fen, best string }{
		{"takes what hangs", "4k3/8/8/3q4/8/2N5/8/4K3 w - - 0 1", "c3d5"},
		{"promotes", "8/P1k5/8/8/8/8/8/K7 w - - 0 1", "a7a8q"},
		{"avoids mate", "6k1/5ppp/8/8/8/8/r4PPP/1r2R1K1 w - - 0 1", "e1b1"},
		{"black forks king and queen", "8/8/8/4n3/8/7Q/2k5/4K3 b - - 0 1", ""},
	} {
		pos := position(t, c.fen)
		r, err := Search(context.Background(), pos, Limits{Depth: 4}, DefaultOptions())
		require.NoError(t, err, c.name)
		if c.best != "" {
			assert.Equal(t, c.best, board.UCI(r.Best), c.name)
		}
		playLine(t, pos, r.PV)
	}
}

func TestSearchBeingMated(t *testing.T) {
	// Black is mated by every line: the score reports it and the line is long.
	r, err := Search(context.Background(), position(t, "7k/8/5KQ1/8/8/8/8/8 b - - 0 1"), Limits{Depth: 4}, DefaultOptions())
	require.ErrorIs(t, err, ErrFinished)
	assert.Nil(t, r.Best)
	pos := position(t, "7k/R7/8/8/8/8/8/1R4K1 b - - 0 1")
	r, err = Search(context.Background(), pos, Limits{Depth: 4}, DefaultOptions())
	require.NoError(t, err)
	assert.Equal(t, -1, r.Mate)
	assert.Equal(t, -MateScore+2, r.Score)
	_, over := board.Finished(playLine(t, pos, r.PV))
	assert.True(t, over)
}

// Equal searches give equal results: they depend on no clock and no map order.
func TestSearchIsAFunctionOfThePosition(t *testing.T) {
	for _, fen := range corpus.Walk(11, 12) {
		var first Result
		for i := range 3 {
			r, err := Search(context.Background(), position(t, fen), Limits{Depth: 3}, DefaultOptions())
			require.NoError(t, err)
			if i == 0 {
				first = r
				continue
			}
			assert.Equal(t, first.Score, r.Score, fen)
			assert.Equal(t, first.Nodes, r.Nodes, fen)
			assert.Equal(t, board.UCI(first.Best), board.UCI(r.Best), fen)
		}
	}
}

// Every random-walk position gets a legal move and a legal line.
func TestSearchAnswersAnyPosition(t *testing.T) {
	for _, fen := range corpus.Walk(3, 150) {
		pos := position(t, fen)
		r, err := Search(context.Background(), pos, Limits{Depth: 2}, DefaultOptions())
		require.NoError(t, err, fen)
		playLine(t, pos, r.PV)
	}
}

// ending is a context that ends after a number of Err calls, so that the test
// does not depend on the speed of the machine.
type ending struct {
	context.Context
	looks int
}

func (e *ending) Err() error {
	if e.looks--; e.looks < 0 {
		return context.Canceled
	}
	return nil
}

func TestSearchStops(t *testing.T) {
	pos := position(t, "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1")
	ctx := &ending{Context: context.Background(), looks: 200}
	r, err := Search(ctx, pos, Limits{Depth: MaxDepth}, Options{Depth: 4, Now: time.Now})
	require.NoError(t, err, "a depth was finished, so there is an answer")
	assert.NotNil(t, r.Best)
	assert.Less(t, r.Depth, MaxDepth)
	assert.Equal(t, -1, ctx.looks, "the search ends at the first look that finds the end")

	opt, clock, looks := DefaultOptions(), time.Unix(0, 0), 0
	opt.Now = func() time.Time { // each reading of the clock takes a millisecond
		looks++
		clock = clock.Add(time.Millisecond)
		return clock
	}
	r, err = Search(context.Background(), pos, Limits{MoveTime: 800 * time.Millisecond}, opt)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, r.Depth, 1)
	assert.LessOrEqual(t, looks, 802, "the search goes on after its time")

	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = Search(gone, position(t, "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1"), Limits{Depth: 30}, Options{Depth: 30, Now: time.Now})
	require.NoError(t, err, "shallow depths fit between two looks at the context")
}

func BenchmarkSearchDepth4(b *testing.B) {
	pos, err := board.Parse("r1bqkbnr/pppp1ppp/2n5/4p3/4P3/5N2/PPPP1PPP/RNBQKB1R w KQkq - 2 3")
	require.NoError(b, err)
	for b.Loop() {
		if _, err := Search(context.Background(), pos, Limits{Depth: 4}, DefaultOptions()); err != nil {
			b.Fatal(err)
		}
	}
}
