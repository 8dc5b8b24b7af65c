package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/sat/internal/dimacs"
	"github.com/fermenthq/ferment/plugins/sat/internal/solve"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
)

// The test binary is the plugin and its own worker, like the shipped one.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == solve.WorkerArg {
		os.Exit(solve.WorkerMain(os.Stdin, os.Stdout, os.Stderr))
	}
	sdktest.Main(m, shipped())
}

func shipped() sdk.Plugin {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return newPlugin(self)
}

func TestSolve(t *testing.T) {
	p := sdktest.Serve(t, shipped())
	for input, want := range map[string]string{
		`{:dimacs "p cnf 2 2\n1 0\n-1 2 0\n"}`: `{:model [1 2] :status :sat}`,
		`{:clauses [[1] [-1]]}`:                `{:status :unsat}`,
		`{:clauses []}`:                        `{:model [] :status :sat}`,
		`{:dimacs "p cnf 3 1\n-2 0"}`:          "",
	} {
		out := p.MustInvoke("sat/solver", edn.MustRead(input))
		if want != "" {
			assert.Equal(t, want, out.String(), input)
			continue
		}
		assert.Equal(t, 3, out.Key("model").Len(), "the model names every variable: %s", out)
	}
}

func TestVerify(t *testing.T) {
	p := sdktest.Serve(t, shipped())
	assert.Equal(t, `{:valid? true}`, p.MustInvoke("sat/verifier", edn.MustRead(`{:clauses [[1 2] [-1]] :model [-1 2]}`)).String())
	assert.Equal(t, `{:clause 2 :valid? false}`, p.MustInvoke("sat/verifier", edn.MustRead(`{:clauses [[1 2] [-1]] :model [1 2]}`)).String())
	// As a check it also gets the whole answer of the solver.
	assert.Equal(t, `{:valid? true}`, p.MustInvoke("sat/verifier", edn.MustRead(`{:dimacs "p cnf 1 1\n1 0" :status :sat :model [1]}`)).String())
}

// Each row is one typed error that names the field.
func TestMalformedInput(t *testing.T) {
	p := sdktest.Serve(t, shipped())
	for _, c := range []struct{ capability, input, field string }{
		{"sat/solver", `{}`, "dimacs"},
		{"sat/solver", `{:dimacs ""}`, "dimacs"},
		{"sat/solver", `{:dimacs 7}`, "dimacs"},
		{"sat/solver", `{:dimacs "p cnf 1 1\n2 0"}`, "dimacs"},
		{"sat/solver", `{:dimacs "p cnf 1 2\n1 0"}`, "dimacs"},
		{"sat/solver", `{:clauses [[1 0]]}`, "clauses"},
		{"sat/solver", `{:clauses [[1 "x"]]}`, "clauses"},
		{"sat/solver", `{:clauses {1 2}}`, "clauses"},
		{"sat/solver", `{:clauses [[99999999]]}`, "clauses"},
		{"sat/solver", `{:clauses [[1]] :dimacs "p cnf 1 1\n1 0"}`, "clauses"},
		{"sat/solver", `{:clauses [[1]] :timeout-ms 0}`, "timeout-ms"},
		{"sat/solver", `{:clauses [[1]] :timeout-ms "soon"}`, "timeout-ms"},
		{"sat/verifier", `{:clauses [[1]]}`, "model"},
		{"sat/verifier", `{:clauses [[1]] :model [2]}`, "model"},
		{"sat/verifier", `{:clauses [[1]] :model [1 -1]}`, "model"},
		{"sat/verifier", `{:clauses [[1]] :model "1"}`, "model"},
		{"sat/verifier", `{:model [1]}`, "dimacs"},
	} {
		_, err := p.Invoke(c.capability, edn.MustRead(c.input))
		e := contract.AsError(err)
		if assert.NotNil(t, e, c.input) {
			assert.Equal(t, "input/invalid", e.Type, "%s: %v", c.input, e)
			assert.Contains(t, e.Message, c.field, c.input)
		}
	}
}

// hard is a request that takes a solver far longer than any test: 14 pigeons
// into 13 holes.
func hard(t *testing.T) edn.Value {
	const holes = 13
	var clauses [][]int
	for pigeon := range holes + 1 {
		var somewhere []int
		for hole := range holes {
			somewhere = append(somewhere, pigeon*holes+hole+1)
			for other := range pigeon {
				clauses = append(clauses, []int{-(pigeon*holes + hole + 1), -(other*holes + hole + 1)})
			}
		}
		clauses = append(clauses, somewhere)
	}
	input, err := edn.Encode(map[string]any{"clauses": clauses})
	require.NoError(t, err)
	return input
}

// The worker of a canceled call has ended when the call returns.
func TestCancelKillsTheWorker(t *testing.T) {
	p := sdktest.Serve(t, shipped())
	input := hard(t)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	at := time.Now()
	_, err := p.Do(ctx, sdktest.Call{Capability: "sat/solver", Intent: "sat/solve", Input: input})
	require.Error(t, err)
	assert.Less(t, time.Since(at), 30*time.Second, "the search would take hours")
	out := p.MustInvoke("sat/solver", edn.MustRead(`{:clauses [[1]]}`))
	assert.Equal(t, `{:model [1] :status :sat}`, out.String(), "the plugin serves on")
}

// A configured program is declared as a requirement, and a missing one makes
// the plugin not ready instead of ending it (ENV-019).
func TestExternalSolver(t *testing.T) {
	script := filepath.Join(t.TempDir(), "solver")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\necho s SATISFIABLE\necho v 1 2 0\nexit 10\n"), 0o700))
	config := edn.MustMap(edn.K("solver"), edn.Text("competition"), edn.K("path"), edn.Text(script))
	p := sdktest.Serve(t, shipped(), sdktest.WithConfig(config))
	assert.Equal(t, `{:model [1 2] :status :sat}`, p.MustInvoke("sat/solver", edn.MustRead(`{:clauses [[1 2] [-1 2]]}`)).String())

	offer, err := (&satPlugin{}).offer(context.Background(), settings{Solver: "cadical"})
	require.NoError(t, err)
	assert.Equal(t, []string{"process/run"}, offer.Needs)
	offer, err = (&satPlugin{}).offer(context.Background(), settings{Solver: builtin})
	require.NoError(t, err)
	assert.Equal(t, []string{"process/self"}, offer.Needs)

	absent := &satPlugin{}
	cfg := settings{Solver: "competition", Path: "/no/such/solver"}
	require.NoError(t, absent.start(context.Background(), cfg))
	_, err = decider(absent.decide).solve(context.Background(), solveIn{Clauses: &[][]int{{1}}})
	require.ErrorIs(t, err, contract.OfType("provider/not-configured"))

	assert.Error(t, checkSettings(settings{Solver: "competition"}))
	assert.Error(t, checkSettings(settings{Solver: builtin, Path: "cadical"}))
	assert.NoError(t, checkSettings(settings{Solver: "minisat"}))
}

// The configured timeout applies if the request has none.
func TestUsualTimeout(t *testing.T) {
	var got []time.Duration
	d := decider(func(_ context.Context, _ *dimacs.Formula, timeout time.Duration) (solve.Answer, error) {
		got = append(got, timeout)
		return solve.Answer{Status: solve.Unknown}, nil
	}).within(20 * time.Millisecond)
	own := 700
	for _, in := range []solveIn{{Clauses: &[][]int{{1}}}, {Clauses: &[][]int{{1}}, TimeoutMS: &own}} {
		_, err := d.solve(context.Background(), in)
		require.NoError(t, err)
	}
	assert.Equal(t, []time.Duration{20 * time.Millisecond, 700 * time.Millisecond}, got)

	p := sdktest.Serve(t, shipped(), sdktest.WithConfig(edn.MustMap(edn.K("timeout"), edn.Int(1))))
	out := p.MustInvoke("sat/solver", hard(t))
	assert.Equal(t, `{:reason "no answer within 1ms" :status :unknown}`, out.String())
}
