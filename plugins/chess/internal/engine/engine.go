package engine

import (
	"context"
	"errors"
	"time"

	"github.com/corentings/chess/v2"

	"github.com/fermenthq/ferment/plugins/chess/internal/board"
)

// MateScore less the number of plies is the score of a forced mate.
const MateScore = 100000

// mateBound separates mate scores from evaluations.
const mateBound = MateScore - 1000

// MaxDepth bounds the depth of a search in plies.
const MaxDepth = 64

// ErrFinished is returned for a position without legal moves.
var ErrFinished = errors.New("engine: the game is over")

// Limits bound one search. Zero values mean the engine's defaults.
type Limits struct {
	Depth    int           // plies, 1..MaxDepth
	MoveTime time.Duration // wall time after which the deepest finished result is returned
}

// Result is the result of a search.
type Result struct {
	Best  *chess.Move
	PV    []*chess.Move // starts with Best; every move is legal in its position
	Score int           // centipawns for the side to move, see the package comment
	Mate  int           // mate in moves: positive wins, negative loses, 0 none
	Depth int           // the deepest finished depth in plies
	Nodes int64
}

// Options are the settings of all searches.
type Options struct {
	Depth     int   // default depth in plies
	MateMoves int   // mates up to this many moves are searched for first
	MateNodes int64 // node limit of the mate search
	Now       func() time.Time
}

// DefaultOptions returns the options of the shipped plugin.
func DefaultOptions() Options {
	return Options{Depth: 4, MateMoves: 3, MateNodes: 60_000, Now: time.Now}
}

// Search searches for the best move. It returns ErrFinished if there is no
// move, and the context's error only if it ended before depth 1 was finished.
func Search(ctx context.Context, pos *chess.Position, limits Limits, opt Options) (Result, error) {
	if _, over := board.Finished(pos); over {
		return Result{}, ErrFinished
	}
	depth := limits.Depth
	if depth == 0 {
		depth = opt.Depth
	}
	s := &search{ctx: ctx, now: opt.Now, table: map[uint64]entry{}}
	if limits.MoveTime > 0 {
		s.until = opt.Now().Add(limits.MoveTime)
		if limits.Depth == 0 {
			depth = MaxDepth
		}
	}
	mates := opt.MateMoves
	if limits.Depth > 0 {
		mates = min(mates, (limits.Depth+1)/2)
	}
	whole := s.until
	s.until = firstShare(ctx, whole, opt.Now())
	if r, ok := s.shortMate(pos, mates, opt.MateNodes); ok {
		return r, nil
	}
	s.until, s.aborted = whole, false
	return s.deepen(pos, depth)
}

// firstShare returns the time when the search for short mates must stop: it
// gets a quarter of the available time.
func firstShare(ctx context.Context, until, now time.Time) time.Time {
	if end, ok := ctx.Deadline(); ok && (until.IsZero() || end.Before(until)) {
		until = end
	}
	if until.IsZero() {
		return until
	}
	return now.Add(until.Sub(now) / 4)
}

type search struct {
	ctx     context.Context
	now     func() time.Time
	until   time.Time // zero: no limit
	nodes   int64
	budget  int64 // node limit of the mate search, 0 for none
	aborted bool
	table   map[uint64]entry
	killers [MaxDepth + 64][2]uint16
	history [4096]int
}

// tick counts a node and checks, every 64 nodes, whether the search must end.
func (s *search) tick() bool {
	s.nodes++
	if s.nodes&63 == 0 {
		if s.ctx.Err() != nil || (!s.until.IsZero() && !s.now().Before(s.until)) {
			s.aborted = true
		}
	}
	if s.budget > 0 && s.nodes >= s.budget {
		s.aborted = true
	}
	return !s.aborted
}

func (s *search) deepen(pos *chess.Position, depth int) (Result, error) {
	var best Result
	for d := 1; d <= depth; d++ {
		line := make([]*chess.Move, 0, d)
		score := s.alphaBeta(pos, d, 0, -MateScore, MateScore, &line)
		if s.aborted {
			break
		}
		best = Result{Best: line[0], PV: line, Score: score, Mate: mateIn(score), Depth: d, Nodes: s.nodes}
		if best.Mate != 0 && d >= MateScore-abs(score) {
			break // a mate is proved, and no shorter one exists
		}
	}
	best.Nodes = s.nodes
	if best.Best == nil {
		// Stopped before the first depth was finished: return any legal move if
		// only the clock ran out.
		if err := s.ctx.Err(); err != nil {
			return Result{}, err
		}
		moves := pos.ValidMoves()
		best.Best, best.PV, best.Score = &moves[0], []*chess.Move{&moves[0]}, evaluate(pos)
	}
	return best, nil
}

func mateIn(score int) int {
	switch {
	case score > mateBound:
		return (MateScore - score + 1) / 2
	case score < -mateBound:
		return -(MateScore + score + 1) / 2
	}
	return 0
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}
