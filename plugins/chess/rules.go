package main

import (
	"context"

	"github.com/fermenthq/ferment/plugins/chess/internal/board"
	"github.com/fermenthq/ferment/plugins/chess/internal/rules"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// answerRules serves both intents of chess/rules.
func answerRules(ctx context.Context, in edn.Value) (any, error) {
	if sdk.CallFrom(ctx).Intent == "chess/perft" {
		return answer(ctx, in, perft)
	}
	return answer(ctx, in, verifyMove)
}

// answer decodes the input of one of several intents of a capability.
func answer[I, O any](ctx context.Context, in edn.Value, fn func(context.Context, I) (O, error)) (any, error) {
	var typed I
	if err := edn.Decode(in, &typed); err != nil {
		return nil, contract.Errorf("input/invalid", "read the input: %w", err)
	}
	return fn(ctx, typed)
}

// verifyIn is the input of :chess/verify-move. As a check of :chess/best-move
// it gets :fen from the request and :move and :pv from the answer.
type verifyIn struct {
	FEN  string   `edn:"fen"`
	Move string   `edn:"move"`
	PV   []string `edn:"pv,omitempty"`
}

type verifyOut struct {
	Legal  bool   `edn:"legal?"`
	SAN    string `edn:"san,omitempty"`
	Check  *bool  `edn:"check?,omitempty"`
	Reason string `edn:"reason,omitempty"`
}

// maxMove bounds the text of a move, in bytes.
const maxMove = 16

func verifyMove(_ context.Context, in verifyIn) (verifyOut, error) {
	pos, err := readPosition(in.FEN)
	if err != nil {
		return verifyOut{}, err
	}
	if in.Move == "" || len(in.Move) > maxMove {
		return verifyOut{}, refused("move", edn.Text(in.Move), "a move such as e2e4 or Nf3")
	}
	m, err := board.Find(pos, in.Move)
	if err != nil {
		return verifyOut{Reason: err.Error()}, nil
	}
	if len(in.PV) > 0 {
		if in.PV[0] != board.UCI(m) && in.PV[0] != in.Move {
			return verifyOut{Reason: "the line begins with " + clip(in.PV[0]) + ", not with the move"}, nil
		}
		at := pos
		for _, text := range in.PV {
			next, err := board.Find(at, text)
			if err != nil {
				return verifyOut{Reason: "the line cannot be played: " + err.Error()}, nil
			}
			at = at.Update(next)
		}
	}
	after := pos.Update(m)
	check := board.InCheck(after)
	return verifyOut{Legal: true, SAN: board.SAN(pos, m), Check: &check}, nil
}

// perftIn is the input of :chess/perft.
type perftIn struct {
	FEN   string `edn:"fen"`
	Depth int    `edn:"depth"`
}

type perftOut struct {
	Nodes int64 `edn:"nodes"`
}

func perft(ctx context.Context, in perftIn) (perftOut, error) {
	pos, err := readPosition(in.FEN)
	if err != nil {
		return perftOut{}, err
	}
	if _, err := number("depth", &in.Depth, 1, rules.MaxPerft); err != nil {
		return perftOut{}, err
	}
	nodes, err := rules.Perft(ctx, pos, in.Depth)
	return perftOut{Nodes: nodes}, err
}
