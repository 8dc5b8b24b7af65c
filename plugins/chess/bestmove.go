package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/corentings/chess/v2"

	"github.com/fermenthq/ferment/plugins/chess/internal/board"
	"github.com/fermenthq/ferment/plugins/chess/internal/engine"
	"github.com/fermenthq/ferment/plugins/chess/internal/uci"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// maxMoveTime bounds the search time of a request.
const maxMoveTime = 10 * time.Minute

// bestMoveIn is the input of :chess/best-move.
type bestMoveIn struct {
	FEN        string    `edn:"fen"`
	Want       edn.Value `edn:"want,omitempty"`
	Depth      *int      `edn:"depth,omitempty"`
	MoveTimeMS *int      `edn:"movetime-ms,omitempty"`
}

// bestMoveOut is the output of :chess/best-move.
type bestMoveOut struct {
	Move  string   `edn:"move"`
	SAN   string   `edn:"san"`
	PV    []string `edn:"pv"`
	Eval  int      `edn:"eval"`
	Mate  *int     `edn:"mate,omitempty"`
	Depth int      `edn:"depth"`
	Nodes int64    `edn:"nodes"`
}

// found is the result of either kind of engine.
type found struct {
	best  *chess.Move
	pv    []*chess.Move
	score int
	mate  int
	depth int
	nodes int64
}

// searcher finds the best move of a position that is not finished.
type searcher interface {
	search(ctx context.Context, pos *chess.Position, depth int, moveTime time.Duration) (found, error)
}

func bestMove(ctx context.Context, s searcher, in bestMoveIn) (bestMoveOut, error) {
	pos, err := readPosition(in.FEN)
	if err != nil {
		return bestMoveOut{}, err
	}
	depth, err := number("depth", in.Depth, 1, engine.MaxDepth)
	if err != nil {
		return bestMoveOut{}, err
	}
	millis, err := number("movetime-ms", in.MoveTimeMS, 1, int(maxMoveTime.Milliseconds()))
	if err != nil {
		return bestMoveOut{}, err
	}
	longest, err := longestLine(in.Want)
	if err != nil {
		return bestMoveOut{}, err
	}
	if res, over := board.Finished(pos); over {
		return bestMoveOut{}, contract.Errorf("chess/game-over", "no move can be played: %s by %s", res.Score, res.Reason).
			WithDetail("result", edn.Text(res.Score)).WithDetail("reason", edn.K(res.Reason))
	}
	r, err := s.search(ctx, pos, depth, time.Duration(millis)*time.Millisecond)
	if err != nil {
		return bestMoveOut{}, err
	}
	out := bestMoveOut{
		Move:  board.UCI(r.best),
		SAN:   board.SAN(pos, r.best),
		PV:    []string{},
		Eval:  r.score,
		Depth: r.depth,
		Nodes: r.nodes,
	}
	for i, m := range r.pv {
		if i == longest {
			break
		}
		out.PV = append(out.PV, board.UCI(m))
	}
	if r.mate != 0 {
		out.Mate = &r.mate
	}
	return out, nil
}

// longestLine parses :want {:pv n :eval bool}. The evaluation is always
// returned.
func longestLine(want edn.Value) (int, error) {
	const all = engine.MaxDepth
	if want.IsNil() {
		return all, nil
	}
	if !want.IsMap() {
		return 0, refused("want", want, "a map like {:pv 5 :eval true}")
	}
	for key, v := range want.Entries() {
		switch name, _ := key.AsKeyword(); name {
		case "pv":
			n, ok := v.AsInt()
			if !ok || n < 0 || n > all {
				return 0, refused("want :pv", v, fmt.Sprintf("an integer 0..%d", all))
			}
		case "eval":
			if !v.IsBool() {
				return 0, refused("want :eval", v, "true or false")
			}
		default:
			return 0, refused("want", key, "only the keys :pv and :eval")
		}
	}
	if n, ok := want.Key("pv").AsInt(); ok {
		return int(n), nil
	}
	return all, nil
}

// readPosition converts a FEN error to the typed error that names the field.
func readPosition(fen string) (*chess.Position, error) {
	pos, err := board.Parse(fen)
	var fault *board.FieldError
	if errors.As(err, &fault) {
		return nil, contract.Errorf("input/invalid", "%s", fault.Error()).
			WithDetail("path", edn.Vector(edn.K("fen"))).
			WithDetail("field", edn.K(fault.Field)).
			WithDetail("expected", edn.Text(fault.Expected)).
			WithDetail("got", edn.Text(fault.Got))
	}
	return pos, err
}

// number validates an optional field; 0 means absent.
func number(field string, n *int, low, high int) (int, error) {
	if n == nil {
		return 0, nil
	}
	if *n < low || *n > high {
		return 0, refused(field, edn.Int(int64(*n)), fmt.Sprintf("an integer %d..%d", low, high))
	}
	return *n, nil
}

// refused is the error for an invalid field of the input.
func refused(field string, got edn.Value, expected string) *contract.Error {
	return contract.Errorf("input/invalid", "%s: expected %s, got %s", field, expected, clip(got.String())).
		WithDetail("path", edn.Vector(fieldPath(field)...)).
		WithDetail("expected", edn.Text(expected)).
		WithDetail("got", got)
}

// fieldPath converts "want :pv" to the path [:want :pv].
func fieldPath(field string) []edn.Value {
	var path []edn.Value
	for name := range strings.FieldsSeq(field) {
		path = append(path, edn.K(strings.TrimPrefix(name, ":")))
	}
	return path
}

func clip(s string) string {
	const most = 80
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// embedded is the engine of this repository.
type embedded struct{ options engine.Options }

func (e embedded) search(ctx context.Context, pos *chess.Position, depth int, moveTime time.Duration) (found, error) {
	r, err := engine.Search(ctx, pos, engine.Limits{Depth: depth, MoveTime: moveTime}, e.options)
	if err != nil {
		return found{}, err
	}
	if ctx.Err() != nil { // the call was canceled
		return found{}, ctx.Err()
	}
	return found{best: r.Best, pv: r.PV, score: r.Score, mate: r.Mate, depth: r.Depth, nodes: r.Nodes}, nil
}

// external is an engine in another program. If it does not start or dies, calls
// fail with downstream errors, and the plugin itself stays ready.
type external struct {
	engine *uci.Engine
	depth  int
	time   time.Duration
}

func (e external) search(ctx context.Context, pos *chess.Position, depth int, moveTime time.Duration) (found, error) {
	limits := uci.Limits{Depth: depth, MoveTime: moveTime}
	if depth == 0 && moveTime == 0 {
		limits = uci.Limits{Depth: e.depth, MoveTime: e.time}
	}
	r, err := e.engine.Search(ctx, pos, limits)
	switch {
	case ctx.Err() != nil:
		return found{}, ctx.Err()
	case err != nil:
		return found{}, contract.Errorf("runtime/invoke-failed", "search with the chess engine: %w", err).
			WithSource(contract.SourceDownstream)
	}
	return found{best: r.Best, pv: r.PV, score: r.Score, mate: r.Mate, depth: r.Depth, nodes: r.Nodes}, nil
}
