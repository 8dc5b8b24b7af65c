package corpus

import (
	"bufio"
	"bytes"
	_ "embed" // for the list of mates
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/corentings/chess/v2"

	"github.com/fermenthq/ferment/plugins/chess/internal/board"
)

//go:embed mates.txt
var mates []byte

// Mate is a position in which the side to move mates in exactly Moves moves.
type Mate struct {
	Moves int
	FEN   string
}

// Mates returns the positions with a forced mate in one to three moves.
func Mates() ([]Mate, error) {
	var out []Mate
	for scan := bufio.NewScanner(bytes.NewReader(mates)); scan.Scan(); {
		moves, fen, ok := strings.Cut(scan.Text(), " ")
		n, err := strconv.Atoi(moves)
		if !ok || err != nil {
			return nil, fmt.Errorf("corpus: line %q: expected the number of moves, a space and a FEN", scan.Text())
		}
		out = append(out, Mate{Moves: n, FEN: fen})
	}
	return out, nil
}

// Walk plays random games from the start position and yields n positions in
// which a move can still be made, at most one in four plies of a game.
func Walk(seed uint64, n int) []string {
	rng := rand.New(rand.NewPCG(seed, 0))
	var out []string
	for len(out) < n {
		pos := chess.StartingPosition()
		for ply := 0; ply < 160 && len(out) < n; ply++ {
			moves := pos.ValidMoves()
			if len(moves) == 0 {
				break
			}
			if rng.IntN(4) == 0 {
				out = append(out, pos.String())
			}
			pos = pos.Update(&moves[rng.IntN(len(moves))])
		}
	}
	return out
}

// Forced reports whether the side to move can mate in at most n moves against every defense; n must
// be at least 1. It searches all moves and shares no code with the engines, so it can verify them.
// The time grows exponentially with n.
func Forced(pos *chess.Position, n int) bool {
	for _, m := range pos.ValidMoves() {
		if n == 1 && !m.HasTag(chess.Check) {
			continue
		}
		if Mated(pos.Update(&m), n-1) {
			return true
		}
	}
	return false
}

// Mated reports whether the side to move is mated now, or will be within n further moves of the
// other side against every defense; n must be at least 0.
func Mated(pos *chess.Position, n int) bool {
	replies := pos.ValidMoves()
	if len(replies) == 0 {
		_, over := board.Finished(pos)
		return over && pos.Status() == chess.Checkmate
	}
	if n == 0 {
		return false
	}
	for _, m := range replies {
		if !Forced(pos.Update(&m), n) {
			return false
		}
	}
	return true
}
