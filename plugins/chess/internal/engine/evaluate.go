package engine

import (
	"github.com/corentings/chess/v2"
)

// value returns the value of a piece in centipawns.
func value(t chess.PieceType) int {
	switch t {
	case chess.Pawn:
		return 100
	case chess.Knight:
		return 320
	case chess.Bishop:
		return 330
	case chess.Rook:
		return 500
	case chess.Queen:
		return 900
	}
	return 0
}

// evaluate scores a position from material, centralisation, pawn advance, king
// shelter and the bishop pair, for the side to move.
func evaluate(pos *chess.Position) int {
	var squares [64]chess.Piece
	b := pos.Board()
	heavy := 0
	for sq := range squares {
		p := b.Piece(chess.Square(sq))
		squares[sq] = p
		if t := p.Type(); t == chess.Queen || t == chess.Rook {
			heavy += value(t)
		}
	}
	endgame := heavy <= 2*value(chess.Rook)
	score := 0
	var bishops [2]int
	var kings [2]int
	var pieces [2]int
	for sq, p := range squares {
		if p == chess.NoPiece {
			continue
		}
		side, sign := 0, 1
		if p.Color() == chess.Black {
			side, sign = 1, -1
		}
		if p.Type() == chess.Bishop {
			bishops[side]++
		}
		if p.Type() == chess.King {
			kings[side] = sq
		} else {
			pieces[side] += value(p.Type())
		}
		score += sign * (value(p.Type()) + placed(p.Type(), sq, side, endgame))
	}
	for side, sign := range []int{1, -1} {
		if bishops[side] >= 2 {
			score += sign * 30
		}
		// With a won ending the weaker king is driven to the edge and the
		// kings are brought together; without it a bare king is never mated.
		if pieces[side] > pieces[1-side]+300 && pieces[1-side] <= value(chess.Bishop) {
			score += sign * (12*edge(kings[1-side]) + 6*(14-distance(kings[0], kings[1])))
		}
	}
	if pos.Turn() == chess.Black {
		score = -score
	}
	return score + 8
}

// placed returns the bonus of a piece for its square. Ranks are counted from
// the owner's side.
func placed(t chess.PieceType, sq, side int, endgame bool) int {
	file, rank := sq%8, sq/8
	if side == 1 {
		rank = 7 - rank
	}
	centre := 6 - (abs(2*file-7)+abs(2*rank-7))/2 // -1 in a corner .. 5 in the middle
	switch t {
	case chess.Pawn:
		advance := []int{0, 0, 4, 10, 20, 40, 80, 0}[rank]
		if endgame {
			return 2 * advance
		}
		if file == 3 || file == 4 {
			advance += 10
		}
		return advance
	case chess.Knight:
		return 8*centre - 16
	case chess.Bishop:
		return 5*centre - 8
	case chess.Rook:
		if rank == 6 {
			return 20
		}
		return 2 * centre
	case chess.Queen:
		return 2 * centre
	case chess.King:
		if endgame {
			return 8 * centre
		}
		if rank == 0 && (file <= 2 || file >= 6) {
			return 25
		}
		return -12 * rank
	}
	return 0
}

// edge is 0 in the middle and grows to 6 in a corner.
func edge(sq int) int { return (abs(2*(sq%8)-7)+abs(2*(sq/8)-7))/2 - 1 }

func distance(a, b int) int { return abs(a%8-b%8) + abs(a/8-b/8) }

// hash identifies a position in the tables of one search: pieces, side to move,
// castling rights, en passant square. FNV-1a over them; a collision of 64 bits
// within one search is less likely than a memory error.
func hash(pos *chess.Position) uint64 {
	const prime = 1099511628211
	h := uint64(14695981039346656037)
	b := pos.Board()
	for sq := range 64 {
		h = (h ^ uint64(b.Piece(chess.Square(sq)))) * prime
	}
	h = (h ^ uint64(pos.Turn())) * prime
	h = (h ^ uint64(uint8(pos.EnPassantSquare()))) * prime
	for _, c := range []byte(pos.CastleRights()) {
		h = (h ^ uint64(c)) * prime
	}
	return h
}
