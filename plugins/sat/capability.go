package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fermenthq/ferment/plugins/sat/internal/dimacs"
	"github.com/fermenthq/ferment/plugins/sat/internal/solve"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// maxTimeout is the maximum timeout of a request.
const maxTimeout = time.Hour

// solveIn is the input of :sat/solve, with the formula in one of two forms.
type solveIn struct {
	DIMACS    *string  `edn:"dimacs,omitempty"`
	Clauses   *[][]int `edn:"clauses,omitempty"`
	TimeoutMS *int     `edn:"timeout-ms,omitempty"`
}

type solveOut struct {
	Status edn.Value `edn:"status"`
	Model  *[]int    `edn:"model,omitempty"`
	Reason string    `edn:"reason,omitempty"`
}

// decider decides a formula within the timeout; 0 means no limit. An answer that takes longer is
// Unknown.
type decider func(ctx context.Context, f *dimacs.Formula, timeout time.Duration) (solve.Answer, error)

// within returns a decider that uses the timeout usual for requests without one; 0 means no limit.
func (s decider) within(usual time.Duration) decider {
	return func(ctx context.Context, f *dimacs.Formula, timeout time.Duration) (solve.Answer, error) {
		if timeout == 0 {
			timeout = usual
		}
		return s(ctx, f, timeout)
	}
}

func (s decider) solve(ctx context.Context, in solveIn) (solveOut, error) {
	f, err := formula(in.DIMACS, in.Clauses)
	if err != nil {
		return solveOut{}, err
	}
	timeout := 0
	if in.TimeoutMS != nil {
		timeout = *in.TimeoutMS
		if most := int(maxTimeout.Milliseconds()); timeout < 1 || timeout > most {
			return solveOut{}, refused("timeout-ms", edn.Int(int64(timeout)), fmt.Sprintf("an integer 1..%d", most))
		}
	}
	a, err := s(ctx, f, time.Duration(timeout)*time.Millisecond)
	if err != nil {
		return solveOut{}, err
	}
	out := solveOut{Status: edn.K(string(a.Status)), Reason: a.Reason}
	if a.Status == solve.Sat {
		out.Model = &a.Model
	}
	return out, nil
}

// verifyIn is the input of :sat/verify. As a check of :sat/solve it gets the
// formula from the request and the model from the answer.
type verifyIn struct {
	DIMACS  *string  `edn:"dimacs,omitempty"`
	Clauses *[][]int `edn:"clauses,omitempty"`
	Model   []int    `edn:"model"`
}

type verifyOut struct {
	Valid  bool `edn:"valid?"`
	Clause int  `edn:"clause,omitempty"`
}

func verify(_ context.Context, in verifyIn) (verifyOut, error) {
	f, err := formula(in.DIMACS, in.Clauses)
	if err != nil {
		return verifyOut{}, err
	}
	bad, err := f.Check(in.Model)
	if err != nil {
		return verifyOut{}, fault("model", err)
	}
	return verifyOut{Valid: bad == 0, Clause: bad}, nil
}

// formula parses the formula in the form that is present; exactly one must be.
func formula(text *string, clauses *[][]int) (*dimacs.Formula, error) {
	switch {
	case text != nil && clauses != nil:
		return nil, refused("clauses", edn.K("both"), "either :dimacs or :clauses")
	case text != nil:
		f, err := dimacs.Read(*text)
		if err != nil {
			return nil, fault("dimacs", err)
		}
		return f, nil
	case clauses != nil:
		f, err := dimacs.FromClauses(*clauses)
		if err != nil {
			return nil, fault("clauses", err)
		}
		return f, nil
	}
	return nil, refused("dimacs", edn.Nil(), "a formula as :dimacs text or as :clauses")
}

// fault returns the typed error for a field with invalid content.
func fault(field string, err error) *contract.Error {
	e := contract.Errorf("input/invalid", "%s: %s", field, err).WithDetail("path", edn.Vector(edn.K(field)))
	var at *dimacs.Error
	if errors.As(err, &at) {
		if at.Line > 0 {
			e = e.WithDetail("line", edn.Int(int64(at.Line))).WithDetail("column", edn.Int(int64(at.Column)))
		}
		if at.Clause > 0 {
			e = e.WithDetail("clause", edn.Int(int64(at.Clause)))
		}
		if at.Expected != "" {
			e = e.WithDetail("expected", edn.Text(at.Expected))
		}
	}
	return e
}

// refused returns the error for an invalid field of the input.
func refused(field string, got edn.Value, expected string) *contract.Error {
	return contract.Errorf("input/invalid", "%s: expected %s, got %s", field, expected, got).
		WithDetail("path", edn.Vector(edn.K(field))).
		WithDetail("expected", edn.Text(expected)).
		WithDetail("got", got)
}
