package engine

import (
	"cmp"
	"slices"

	"github.com/corentings/chess/v2"
)

// entry is one row of the transposition table.
type entry struct {
	depth int8
	bound int8 // -1 upper, 0 exact, 1 lower
	score int32
	move  uint16
}

// tableMax bounds the memory of one search to some 40 MiB.
const tableMax = 1 << 20

func code(m *chess.Move) uint16 {
	return uint16(m.S1()) | uint16(m.S2())<<6 | uint16(m.Promo())<<12
}

// alphaBeta returns the score of the position and, in line, the best play from
// it. If the search is aborted, line is unchanged.
func (s *search) alphaBeta(pos *chess.Position, depth, ply, alpha, beta int, line *[]*chess.Move) int {
	if !s.tick() {
		return 0
	}
	moves := pos.ValidMoves()
	inCheck := pos.Status() == chess.Checkmate
	if len(moves) == 0 {
		*line = nil
		if inCheck {
			return -MateScore + ply
		}
		return 0
	}
	if ply > 0 && pos.HalfMoveClock() >= 100 {
		*line = nil
		return 0
	}
	if depth <= 0 {
		*line = nil
		return s.quiesce(pos, moves, ply, alpha, beta)
	}
	key := hash(pos)
	hint := uint16(0)
	if e, ok := s.table[key]; ok {
		hint = e.move
		score := fromTable(int(e.score), ply)
		if ply > 0 && int(e.depth) >= depth && (e.bound == 0 || (e.bound > 0 && score >= beta) ||
			(e.bound < 0 && score <= alpha)) {
			*line = nil
			return score
		}
	}
	s.order(pos, moves, hint, ply)

	start, best := alpha, -MateScore-1
	var bestMove *chess.Move
	var below []*chess.Move
	for i := range moves {
		m := &moves[i]
		child := pos.Update(m)
		extend := 0
		if m.HasTag(chess.Check) && ply < 24 {
			extend = 1
		}
		var score int
		switch {
		case i == 0:
			score = -s.alphaBeta(child, depth-1+extend, ply+1, -beta, -alpha, &below)
		default:
			// A null window proves cheaply that a later move is not better.
			score = -s.alphaBeta(child, depth-1+extend, ply+1, -alpha-1, -alpha, &below)
			if score > alpha && score < beta && !s.aborted {
				score = -s.alphaBeta(child, depth-1+extend, ply+1, -beta, -alpha, &below)
			}
		}
		if s.aborted {
			return 0
		}
		if score > best {
			best, bestMove = score, m
			*line = append(append((*line)[:0:0], m), below...)
		}
		alpha = max(alpha, score)
		if alpha >= beta {
			s.reward(m, depth, ply)
			break
		}
	}
	bound := int8(0)
	if best <= start {
		bound = -1
	} else if best >= beta {
		bound = 1
	}
	if len(s.table) < tableMax {
		s.table[key] = entry{depth: int8(depth), bound: bound, score: int32(toTable(best, ply)), move: code(bestMove)}
	}
	return best
}

// quiesce plays captures and promotions until the position is quiet, so that a
// hanging piece is not mistaken for material.
func (s *search) quiesce(pos *chess.Position, moves []chess.Move, ply, alpha, beta int) int {
	stand := evaluate(pos)
	if stand >= beta {
		return stand
	}
	alpha = max(alpha, stand)
	forcing := moves[:0]
	for _, m := range moves {
		if m.HasTag(chess.Capture) || m.HasTag(chess.EnPassant) || m.Promo() == chess.Queen {
			forcing = append(forcing, m)
		}
	}
	s.order(pos, forcing, 0, ply)
	for i := range forcing {
		m := &forcing[i]
		if gain := value(pos.Board().Piece(m.S2()).Type()); stand+gain+200 < alpha && m.Promo() == chess.NoPieceType {
			continue // even winning the piece would not raise alpha
		}
		child := pos.Update(m)
		if !s.tick() {
			return 0
		}
		replies := child.ValidMoves()
		var score int
		switch {
		case len(replies) == 0 && child.Status() == chess.Checkmate:
			score = MateScore - ply - 1
		case len(replies) == 0:
			score = 0
		default:
			score = -s.quiesce(child, replies, ply+1, -beta, -alpha)
		}
		if s.aborted {
			return 0
		}
		if score >= beta {
			return score
		}
		alpha = max(alpha, score)
	}
	return alpha
}

// order sorts moves so that likely cutoffs come first. The order is a function
// of position and search history only, so equal searches give equal results.
func (s *search) order(pos *chess.Position, moves []chess.Move, hint uint16, ply int) {
	rank := func(m *chess.Move) int {
		c := code(m)
		switch {
		case c == hint && hint != 0:
			return 1 << 30
		case m.HasTag(chess.Capture):
			victim, attacker := pos.Board().Piece(m.S2()).Type(), pos.Board().Piece(m.S1()).Type()
			return 1<<24 + 16*value(victim) - value(attacker) + value(m.Promo())
		case m.Promo() != chess.NoPieceType:
			return 1<<23 + value(m.Promo())
		case c == s.killers[ply][0], c == s.killers[ply][1]:
			return 1 << 22
		case m.HasTag(chess.Check):
			return 1 << 21
		}
		return min(s.history[c&4095], 1<<20)
	}
	type ranked struct {
		move chess.Move
		rank int
	}
	buf := make([]ranked, len(moves))
	for i := range moves {
		buf[i] = ranked{moves[i], rank(&moves[i])}
	}
	slices.SortStableFunc(buf, func(a, b ranked) int { return cmp.Compare(b.rank, a.rank) })
	for i := range buf {
		moves[i] = buf[i].move
	}
}

// reward records a quiet move that caused a cutoff.
func (s *search) reward(m *chess.Move, depth, ply int) {
	if m.HasTag(chess.Capture) {
		return
	}
	c := code(m)
	if s.killers[ply][0] != c {
		s.killers[ply][1], s.killers[ply][0] = s.killers[ply][0], c
	}
	s.history[c&4095] += depth * depth
}

// Mate scores count from the root; the table keeps them from the position.
func toTable(score, ply int) int {
	if score > mateBound {
		return score + ply
	}
	if score < -mateBound {
		return score - ply
	}
	return score
}

func fromTable(score, ply int) int {
	if score > mateBound {
		return score - ply
	}
	if score < -mateBound {
		return score + ply
	}
	return score
}
