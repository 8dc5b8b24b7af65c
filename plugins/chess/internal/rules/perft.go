package rules

import (
	"context"

	"github.com/corentings/chess/v2"
)

// MaxPerft bounds the depth of Perft, in plies.
const MaxPerft = 6

// Perft counts the leaves of the tree of legal moves to the given depth. It
// returns the context's error when that ends first.
func Perft(ctx context.Context, pos *chess.Position, depth int) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if depth == 0 {
		return 1, nil
	}
	moves := pos.ValidMoves()
	if depth == 1 {
		return int64(len(moves)), nil
	}
	var sum int64
	for i := range moves {
		n, err := Perft(ctx, pos.Update(&moves[i]), depth-1)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}
