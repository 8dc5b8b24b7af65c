package solve

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/plugins/sat/internal/dimacs"
)

// The test binary is its own worker, like the plugin.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == WorkerArg {
		os.Exit(WorkerMain(os.Stdin, os.Stdout, os.Stderr))
	}
	// Workers of a race build would pause for a second at their end.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}

// pigeonhole states that n+1 pigeons fit into n holes with one each: false, and
// hard to refute.
func pigeonhole(n int) *dimacs.Formula {
	f := &dimacs.Formula{Vars: (n + 1) * n}
	at := func(pigeon, hole int) int { return pigeon*n + hole + 1 }
	for p := range n + 1 {
		var clause []int
		for h := range n {
			clause = append(clause, at(p, h))
		}
		f.Clauses = append(f.Clauses, clause)
	}
	for h := range n {
		for p := range n + 1 {
			for q := range p {
				f.Clauses = append(f.Clauses, []int{-at(p, h), -at(q, h)})
			}
		}
	}
	return f
}

func TestRunDecides(t *testing.T) {
	for name, c := range map[string]struct {
		f    *dimacs.Formula
		want Status
	}{
		"satisfiable":        {&dimacs.Formula{Vars: 3, Clauses: [][]int{{1, -2}, {2, 3}}}, Sat},
		"contradiction":      {&dimacs.Formula{Vars: 1, Clauses: [][]int{{1}, {-1}}}, Unsat},
		"empty clause":       {&dimacs.Formula{Vars: 2, Clauses: [][]int{{1}, {}}}, Unsat},
		"nothing to satisfy": {&dimacs.Formula{Vars: 2, Clauses: [][]int{}}, Sat},
		"only tautologies":   {&dimacs.Formula{Vars: 2, Clauses: [][]int{{1, -1}}}, Sat},
		"unused variables":   {&dimacs.Formula{Vars: 6, Clauses: [][]int{{2}}}, Sat},
		"pigeons":            {pigeonhole(5), Unsat},
	} {
		got, err := Builtin(self(t)).Run(context.Background(), c.f, time.Minute)
		require.NoError(t, err, name)
		assert.Equal(t, c.want, got.Status, name)
		if c.want == Sat {
			bad, err := c.f.Check(got.Model)
			require.NoError(t, err, name)
			assert.Zero(t, bad, name)
			assert.Len(t, got.Model, c.f.Vars, "%s: every variable is named", name)
		}
	}
}

// The verdict equals that of enumerating all assignments.
func TestRunAgreesWithEnumeration(t *testing.T) {
	path := self(t)
	rapid.Check(t, func(t *rapid.T) {
		vars := rapid.IntRange(1, 6).Draw(t, "vars")
		f := &dimacs.Formula{Vars: vars, Clauses: rapid.SliceOfN(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) int {
			return rapid.IntRange(1, vars).Draw(t, "v") * rapid.SampledFrom([]int{1, -1}).Draw(t, "sign")
		}), 1, 3), 1, 24).Draw(t, "clauses")}
		want := Unsat
		for bits := range 1 << vars {
			model := make([]int, vars)
			for i := range model {
				model[i] = (i + 1) * (1 - 2*(bits>>i&1))
			}
			if bad, err := f.Check(model); err == nil && bad == 0 {
				want = Sat
				break
			}
		}
		got, err := Builtin(path).Run(context.Background(), f, time.Minute)
		require.NoError(t, err)
		require.Equal(t, want, got.Status)
	})
}

func TestRunTimeoutIsUnknown(t *testing.T) {
	got, err := Builtin(self(t)).Run(context.Background(), pigeonhole(14), 300*time.Millisecond)
	require.NoError(t, err)
	assert.Equal(t, Unknown, got.Status)
	assert.Contains(t, got.Reason, "300ms")
}

// A timeout that ends before the worker exists counts as a timeout.
func TestRunWithoutTime(t *testing.T) {
	got, err := Builtin(self(t)).Run(context.Background(), pigeonhole(4), time.Nanosecond)
	require.NoError(t, err)
	assert.Equal(t, Answer{Status: Unknown, Reason: "no answer within 1ns"}, got)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = Builtin(self(t)).Run(ctx, pigeonhole(4), time.Minute)
	assert.Equal(t, context.Canceled, err)
}

// A canceled solve ends, although its problem would take hours: Run waits for
// its worker, so its return is the proof. The bound only ends a hang.
func TestRunCancelStopsBurning(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	canceled := make(chan time.Time, 1)
	timer := time.AfterFunc(200*time.Millisecond, func() {
		canceled <- time.Now()
		cancel()
	})
	defer timer.Stop()
	_, err := Builtin(self(t)).Run(ctx, pigeonhole(14), 0)
	require.ErrorIs(t, err, context.Canceled)
	assert.Less(t, time.Since(<-canceled), 30*time.Second)
}
