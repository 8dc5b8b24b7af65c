package engine

import (
	"github.com/corentings/chess/v2"
)

// shortMate searches for a forced mate in 1, then 2, up to the given number of
// moves: a pure and-or search without evaluation, checks first. It is exact, so
// its result is the shortest mate; it stops at its node budget.
func (s *search) shortMate(pos *chess.Position, moves int, budget int64) (Result, bool) {
	if moves <= 0 || budget <= 0 {
		return Result{}, false
	}
	s.budget = s.nodes + budget
	defer func() { s.budget = 0 }()
	for n := 1; n <= moves; n++ {
		refuted := map[uint64]bool{}
		line := s.force(pos, n, refuted)
		if s.aborted {
			return Result{}, false
		}
		if line != nil {
			return Result{Best: line[0], PV: line, Score: MateScore - (2*n - 1), Mate: n, Depth: 2*n - 1, Nodes: s.nodes}, true
		}
	}
	return Result{}, false
}

// force returns a line that mates in at most n moves against every defense, the
// longest of them, or nil.
func (s *search) force(pos *chess.Position, n int, refuted map[uint64]bool) []*chess.Move {
	key := hash(pos)
	if n > 1 && refuted[key] {
		return nil
	}
	moves := pos.ValidMoves()
	for _, checks := range []bool{true, false} {
		if !checks && n == 1 {
			break // a mate gives check
		}
		for i := range moves {
			m := &moves[i]
			if m.HasTag(chess.Check) != checks {
				continue
			}
			if !s.tick() {
				return nil
			}
			if rest, ok := s.defend(pos.Update(m), n, refuted); ok {
				return append([]*chess.Move{m}, rest...)
			}
			if s.aborted {
				return nil
			}
		}
	}
	if n > 1 {
		refuted[key] = true
	}
	return nil
}

// defend reports whether every reply is mated in n-1 further moves, with the
// longest line.
func (s *search) defend(pos *chess.Position, n int, refuted map[uint64]bool) ([]*chess.Move, bool) {
	replies := pos.ValidMoves()
	if len(replies) == 0 {
		return nil, pos.Status() == chess.Checkmate
	}
	if n == 1 {
		return nil, false
	}
	var longest []*chess.Move
	for i := range replies {
		if !s.tick() {
			return nil, false
		}
		line := s.force(pos.Update(&replies[i]), n-1, refuted)
		if line == nil {
			return nil, false
		}
		if len(line)+1 > len(longest) {
			longest = append([]*chess.Move{&replies[i]}, line...)
		}
	}
	return longest, true
}
