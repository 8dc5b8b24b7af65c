package board

import (
	"fmt"
	"strings"

	"github.com/corentings/chess/v2"
)

// Result is the result of a finished game.
type Result struct {
	Score  string // "1-0", "0-1" or "1/2-1/2"
	Reason string // "checkmate" or "stalemate"
}

// Finished reports whether the side to move has no legal move, and the result
// of the game. A dead position (insufficient material) still has moves and is
// not finished.
func Finished(pos *chess.Position) (Result, bool) {
	switch pos.Status() {
	case chess.Checkmate:
		if pos.Turn() == chess.White {
			return Result{Score: "0-1", Reason: "checkmate"}, true
		}
		return Result{Score: "1-0", Reason: "checkmate"}, true
	case chess.Stalemate:
		return Result{Score: "1/2-1/2", Reason: "stalemate"}, true
	}
	return Result{}, false
}

// InCheck reports whether the king of the side to move is attacked.
func InCheck(pos *chess.Position) bool {
	var g grid
	letters := map[chess.PieceType]byte{chess.King: 'k', chess.Queen: 'q', chess.Rook: 'r', chess.Bishop: 'b',
		chess.Knight: 'n', chess.Pawn: 'p'}
	for sq := range g {
		p := pos.Board().Piece(chess.Square(sq))
		if letter := letters[p.Type()]; p.Color() == chess.White {
			g[sq] = letter - 'a' + 'A'
		} else {
			g[sq] = letter
		}
	}
	white := pos.Turn() == chess.White
	return g.attacked(g.king(white), !white)
}

// UCI returns a move as squares from and to, with a lower-case promotion piece.
func UCI(m *chess.Move) string { return chess.UCINotation{}.Encode(nil, m) }

// SAN returns a legal move of the position in algebraic notation.
func SAN(pos *chess.Position, m *chess.Move) string { return chess.AlgebraicNotation{}.Encode(pos, m) }

// Find finds a move among the legal ones, in UCI or algebraic notation (check
// and mate signs are optional). The error explains in one sentence why the move
// cannot be played.
func Find(pos *chess.Position, text string) (*chess.Move, error) {
	moves := pos.ValidMoves()
	trimmed := strings.TrimRight(strings.TrimSpace(text), "+#!?")
	zeros := strings.ReplaceAll(trimmed, "0-0-0", "O-O-O")
	zeros = strings.ReplaceAll(zeros, "0-0", "O-O")
	for i := range moves {
		if UCI(&moves[i]) == trimmed {
			return &moves[i], nil
		}
		san := strings.TrimRight(SAN(pos, &moves[i]), "+#")
		if san == zeros || strings.ReplaceAll(san, "=", "") == zeros {
			return &moves[i], nil
		}
	}
	if res, over := Finished(pos); over {
		return nil, fmt.Errorf("the game is over: %s by %s", res.Score, res.Reason)
	}
	if from, ok := squareOf(trimmed); ok {
		p := pos.Board().Piece(from)
		switch {
		case p == chess.NoPiece:
			return nil, fmt.Errorf("the square %s is empty", trimmed[:2])
		case p.Color() != pos.Turn():
			return nil, fmt.Errorf("the piece on %s does not belong to the side to move", trimmed[:2])
		default:
			return nil, fmt.Errorf("the %s on %s has no legal move %s", pieceName(p), trimmed[:2], trimmed)
		}
	}
	return nil, fmt.Errorf("%q is not a legal move in this position", clip(text))
}

// squareOf parses the first square of a move in UCI notation.
func squareOf(text string) (chess.Square, bool) {
	if len(text) != 4 && len(text) != 5 {
		return 0, false
	}
	for i := 0; i < 4; i += 2 {
		if text[i] < 'a' || text[i] > 'h' || text[i+1] < '1' || text[i+1] > '8' {
			return 0, false
		}
	}
	return chess.NewSquare(chess.File(text[0]-'a'), chess.Rank(text[1]-'1')), true
}

func pieceName(p chess.Piece) string {
	switch p.Type() {
	case chess.King:
		return "king"
	case chess.Queen:
		return "queen"
	case chess.Rook:
		return "rook"
	case chess.Bishop:
		return "bishop"
	case chess.Knight:
		return "knight"
	}
	return "pawn"
}
