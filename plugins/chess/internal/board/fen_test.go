package board

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const start = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"

func TestParseAccepts(t *testing.T) {
	for _, fen := range []string{
		start,
		"rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR w KQkq e6 0 2",
		"rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq e3 0 1",
		"8/8/8/8/8/8/8/K1k5 w - - 0 1",
		"4k3/8/8/8/8/8/8/QQQQKQQQ w - - 99 300",
		"  8/8/8/4k3/8/8/4K3/8 b - - 12 60 ",
		"r3k2r/8/8/8/8/8/8/R3K2R b Kq - 0 1",
	} {
		pos, err := Parse(fen)
		require.NoError(t, err, fen)
		assert.Equal(t, strings.TrimSpace(fen), pos.String())
	}
}

// Each row is one typed error that names the field.
func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ name, fen, field, says string }{
		{"empty", "", "fen", "1 fields"},
		{"five fields", "8/8/8/4k3/8/8/4K3/8 w - - 0", "fen", "5 fields"},
		{"two blanks", "8/8/8/4k3/8/8/4K3/8  w - - 0 1", "fen", "7 fields"},
		{"endless", strings.Repeat("8/", 500), "fen", "too long"},
		{"seven ranks", "8/8/8/4k3/8/8/4K3 w - - 0 1", "placement", "7 ranks"},
		{"short rank", "8/8/8/4k2/8/8/4K3/8 w - - 0 1", "placement", "rank 5 has 7 squares"},
		{"long rank", "8/8/8/4k4/8/8/4K3/8 w - - 0 1", "placement", "rank 5 has 9 squares"},
		{"split count", "8/8/8/4k3/8/8/44/4K3 w - - 0 1", "placement", "two counts"},
		{"unknown piece", "8/8/8/4k3/8/8/4X3/4K3 w - - 0 1", "placement", "unknown piece"},
		{"nine", "9/8/8/4k3/8/8/4K3/8 w - - 0 1", "placement", "unknown piece"},
		{"no white king", "8/8/8/4k3/8/8/8/8 w - - 0 1", "placement", "white has 0 kings"},
		{"two black kings", "k7/8/8/4k3/8/8/4K3/8 w - - 0 1", "placement", "black has 2 kings"},
		{"pawn on the first rank", "8/8/8/4k3/8/8/4K3/P7 w - - 0 1", "placement", "a pawn stands on a1"},
		{"nine pawns", "4k3/8/8/8/8/P7/PPPPPPPP/4K3 w - - 0 1", "placement", "9 pawns"},
		{"too many queens", "4k3/8/8/8/8/QQQ5/PPPPPPPP/4K3 w - - 0 1", "placement", "2 promoted"},
		{"no turn", "8/8/8/4k3/8/8/4K3/8 x - - 0 1", "turn", "unknown side"},
		{"opponent in check", "4k3/8/8/8/8/8/4R3/4K3 w - - 0 1", "turn", "left its king in check"},
		{"kings side by side", "8/8/8/3kK3/8/8/8/8 w - - 0 1", "turn", "left its king in check"},
		{"unknown right", "4k3/8/8/8/8/8/8/4K2R w X - 0 1", "castling", "unknown right"},
		{"right twice", "4k3/8/8/8/8/8/8/4K2R w KK - 0 1", "castling", "repeated"},
		{"rights out of order", "4k2r/8/8/8/8/8/8/4K2R w kK - 0 1", "castling", "out of order"},
		{"right without rook", "4k3/8/8/8/8/8/8/4K3 w K - 0 1", "castling", "needs king and rook"},
		{"right without king", "4k3/8/8/8/8/8/8/3K3R w K - 0 1", "castling", "needs king and rook"},
		{"no square", "4k3/8/8/8/8/8/8/4K3 w - z9 0 1", "en-passant", "not a square"},
		{"wrong rank", "4k3/8/8/8/4P3/8/8/4K3 w - e3 0 1", "en-passant", "not on rank 6"},
		{"no pawn passed", "4k3/8/8/8/8/8/8/4K3 w - e6 0 1", "en-passant", "no pawn"},
		{"square taken", "4k3/4p3/8/4p3/8/8/8/4K3 w - e6 0 1", "en-passant", "could not have passed"},
		{"clock", "4k3/8/8/8/8/8/8/4K3 w - - x 1", "halfmove-clock", "not such a number"},
		{"negative clock", "4k3/8/8/8/8/8/8/4K3 w - - -1 1", "halfmove-clock", "not such a number"},
		{"move zero", "4k3/8/8/8/8/8/8/4K3 w - - 0 0", "move-number", "not such a number"},
	} {
		_, err := Parse(c.fen)
		var e *FieldError
		require.ErrorAs(t, err, &e, c.name)
		assert.Equal(t, c.field, e.Field, c.name)
		assert.Contains(t, e.Message, c.says, c.name)
		assert.Less(t, len(err.Error()), 400, c.name)
	}
}

func TestFind(t *testing.T) {
	pos, err := Parse("r3k2r/8/8/8/8/8/P6P/R3K2R w KQkq - 0 1")
	require.NoError(t, err)
	for text, want := range map[string]string{"e1g1": "e1g1", "O-O": "e1g1", "0-0-0": "e1c1", "Kd2": "e1d2", "a4": "a2a4", "Rxa8": "", "Rg1!?": "h1g1"} {
		m, err := Find(pos, text)
		if want == "" {
			require.Error(t, err, text)
			continue
		}
		require.NoError(t, err, text)
		assert.Equal(t, want, UCI(m), text)
	}
	for text, says := range map[string]string{"e4e5": "the square e4 is empty", "e8e7": "does not belong to the side to move", "e1e3": "the king on e1 has no legal move", "Qh5": "not a legal move", "": "not a legal move"} {
		_, err := Find(pos, text)
		require.ErrorContains(t, err, says, text)
	}
	promoting, err := Parse("7k/P7/8/8/8/8/8/K7 w - - 0 1")
	require.NoError(t, err)
	for _, text := range []string{"a7a8q", "a8=Q", "a8Q+", "a8=Q+"} {
		m, err := Find(promoting, text)
		require.NoError(t, err, text)
		assert.Equal(t, "a7a8q", UCI(m))
	}
}

func TestFinished(t *testing.T) {
	for fen, want := range map[string]Result{
		"rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3": {"0-1", "checkmate"},
		"R5k1/5ppp/8/8/8/8/8/6K1 b - - 0 1":                             {"1-0", "checkmate"},
		"7k/5Q2/6K1/8/8/8/8/8 b - - 0 1":                                {"1/2-1/2", "stalemate"},
	} {
		pos, err := Parse(fen)
		require.NoError(t, err)
		got, over := Finished(pos)
		assert.True(t, over, fen)
		assert.Equal(t, want, got, fen)
	}
	for _, fen := range []string{start, "8/8/8/8/8/8/8/K1k5 w - - 0 1"} {
		pos, err := Parse(fen)
		require.NoError(t, err)
		_, over := Finished(pos)
		assert.False(t, over, "a dead position is not finished: %s", fen)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{start, "8/8/8/4k3/8/8/4K3/8 w - - 0 1", "4k3/8/8/8/8/8/8/4K2R w K - 0 1", "//////// w - - 0 1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, fen string) {
		pos, err := Parse(fen)
		if err != nil {
			var e *FieldError
			if !errors.As(err, &e) || e.Field == "" {
				t.Fatalf("error without a field: %v", err)
			}
			return
		}
		again, err := Parse(pos.String())
		if err != nil || again.String() != pos.String() {
			t.Fatalf("%q is not read back: %v", pos.String(), err)
		}
		for _, m := range pos.ValidMoves() {
			if _, err := Find(pos, UCI(&m)); err != nil {
				t.Fatalf("legal move %s is not found: %v", UCI(&m), err)
			}
		}
	})
}
