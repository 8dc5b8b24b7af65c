package uci

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/corentings/chess/v2"

	"github.com/fermenthq/ferment/plugins/chess/internal/board"
)

// Limits bound one search; at least one of them must be set.
type Limits struct {
	Depth    int
	MoveTime time.Duration
}

// Result is the result of the engine. Score is in centipawns for the side to
// move, 100000 less the plies for a mate; Mate counts moves.
type Result struct {
	Best  *chess.Move
	PV    []*chess.Move
	Score int
	Mate  int
	Depth int
	Nodes int64
}

const (
	handshake = 15 * time.Second       // from start to uciok, and from isready to readyok; reading a network takes seconds
	stopGrace = 500 * time.Millisecond // from stop to bestmove
	mateScore = 100000
)

// Engine is a configured UCI engine. Use New; the zero value is not usable.
type Engine struct {
	path    string
	args    []string
	options map[string]string

	turn chan struct{} // holds one token: the right to use proc
	proc *process
}

// New returns an engine without starting it. Options are sent with setoption in
// the order of their names.
func New(path string, args []string, options map[string]string) *Engine {
	e := &Engine{path: path, args: args, options: options, turn: make(chan struct{}, 1)}
	e.turn <- struct{}{}
	return e
}

// Close ends the process, if one runs, and waits for it.
func (e *Engine) Close() {
	<-e.turn
	defer func() { e.turn <- struct{}{} }()
	e.drop()
}

// Search searches for the best move. When the context ends, the engine gets
// "stop" and the context's error is returned.
func (e *Engine) Search(ctx context.Context, pos *chess.Position, limits Limits) (Result, error) {
	select {
	case <-e.turn:
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
	defer func() { e.turn <- struct{}{} }()
	if err := e.ready(ctx); err != nil {
		e.drop()
		return Result{}, err
	}
	r, err := e.search(ctx, pos, limits)
	if err != nil && !errors.Is(err, errStopped) {
		e.drop()
	}
	if errors.Is(err, errStopped) {
		return Result{}, ctx.Err()
	}
	return r, err
}

// errStopped means that the context ended and the engine stopped.
var errStopped = errors.New("uci: stopped")

func (e *Engine) drop() {
	if e.proc != nil {
		e.proc.stop()
		e.proc = nil
	}
}

// ready starts the engine if needed and waits until it accepts a position.
func (e *Engine) ready(ctx context.Context) error {
	if e.proc == nil {
		p, err := start(e.path, e.args)
		if err != nil {
			return err
		}
		e.proc = p
		hctx, cancel := context.WithTimeout(ctx, handshake)
		defer cancel()
		if err := p.send("uci"); err != nil {
			return err
		}
		if _, err := p.until(hctx, "uciok", nil); err != nil {
			return fmt.Errorf("uci: waiting for uciok: %w", err)
		}
		for _, name := range sortedKeys(e.options) {
			if err := p.send("setoption name %s value %s", name, e.options[name]); err != nil {
				return err
			}
		}
	}
	hctx, cancel := context.WithTimeout(ctx, handshake)
	defer cancel()
	if err := e.proc.send("ucinewgame\nisready"); err != nil {
		return err
	}
	if _, err := e.proc.until(hctx, "readyok", nil); err != nil {
		return fmt.Errorf("uci: waiting for readyok: %w", err)
	}
	return nil
}

func (e *Engine) search(ctx context.Context, pos *chess.Position, limits Limits) (Result, error) {
	p := e.proc
	command := "go"
	if limits.Depth > 0 {
		command += " depth " + strconv.Itoa(limits.Depth)
	}
	if limits.MoveTime > 0 {
		command += " movetime " + strconv.FormatInt(max(1, limits.MoveTime.Milliseconds()), 10)
	}
	if err := p.send("position fen %s\n%s", pos.String(), command); err != nil {
		return Result{}, err
	}
	var last info
	take := func(line string) {
		if i, ok := parseInfo(line); ok {
			last = i
		}
	}
	line, err := p.until(ctx, "bestmove", take)
	if err != nil && ctx.Err() != nil {
		sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
		defer cancel()
		if serr := p.send("stop"); serr != nil {
			return Result{}, serr
		}
		if _, serr := p.until(sctx, "bestmove", nil); serr != nil {
			return Result{}, serr
		}
		return Result{}, errStopped
	}
	if err != nil {
		return Result{}, err
	}
	return last.result(pos, line)
}

// result checks the engine's output against the rules.
func (i info) result(pos *chess.Position, bestmove string) (Result, error) {
	fields := strings.Fields(bestmove)
	if len(fields) < 2 {
		return Result{}, fmt.Errorf("uci: engine answered %q, expected bestmove and a move", bestmove)
	}
	best, err := board.Find(pos, fields[1])
	if err != nil {
		return Result{}, fmt.Errorf("uci: engine answered the move %q: %w", fields[1], err)
	}
	r := Result{Best: best, Score: i.score, Mate: i.mate, Depth: i.depth, Nodes: i.nodes, PV: []*chess.Move{best}}
	if len(i.pv) == 0 || i.pv[0] != fields[1] {
		return r, nil
	}
	at := pos.Update(best)
	for _, text := range i.pv[1:] {
		m, err := board.Find(at, text)
		if err != nil {
			break // the rest of the line is invalid, the move is not
		}
		r.PV = append(r.PV, m)
		at = at.Update(m)
	}
	return r, nil
}
