//go:build slow

package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The comparison is fair: every order has the same questions and at most two
// attempts each, its figures add up, and where prices and engines are alike the
// two orders that learn nothing are the same. Which order wins is not asserted.
func TestComparisonIsFair(t *testing.T) {
	bin := t.TempDir()
	t.Chdir("../..")
	for target, program := range map[string]string{"ferment": "./host/ferment", "plugins/chess": "./plugins/chess"} {
		out, err := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(bin, target), program).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	var out bytes.Buffer
	results, err := show(&out, bin, true)
	require.NoError(t, err, "%s", out.String())
	t.Log(out.String())
	require.Len(t, results, len(portfolios))
	for name, r := range results {
		for policy, runs := range r {
			require.Len(t, runs, 2)
			asked, accepted := 0, 0
			for _, f := range runs {
				asked += f.asked
				accepted += f.accepted
				calls := 0
				for _, n := range f.calls {
					calls += n
				}
				assert.Equal(t, f.attempts, calls)
				assert.Equal(t, 12, f.asked, "%s, %s", name, policy)
				assert.GreaterOrEqual(t, f.attempts, f.asked)
				assert.LessOrEqual(t, f.attempts, 2*f.asked)
			}
			assert.Positive(t, accepted, "%s, %s", name, policy)
			assert.Less(t, accepted, asked, "%s, %s: a gate that all pass compares nothing", name, policy)
		}
	}
	alike := results[portfolios[2].name]
	for i, a := range alike["as declared"] {
		b := alike["cost first"][i]
		assert.Equal(t, []any{a.accepted, a.attempts, a.usd}, []any{b.accepted, b.attempts, b.usd})
	}
}

// A difference counts if it is larger than two standard errors, and the verdict
// does not favour quality-aware dispatch.
func TestVerdicts(t *testing.T) {
	runs := func(accepted ...int) (out []figures) {
		for _, n := range accepted {
			out = append(out, figures{asked: 100, accepted: n, usd: 1})
		}
		return out
	}
	for want, r := range map[string]result{
		wins:   {aware.name: runs(80, 82, 81), "b": runs(60, 61, 62)},
		loses:  {aware.name: runs(60, 61, 62), "b": runs(80, 82, 81)},
		same:   {aware.name: runs(70, 60, 80), "b": runs(75, 70, 62)},
		trades: {aware.name: {{asked: 10, accepted: 8, usd: 1}}, "b": {{asked: 10, accepted: 4, usd: 0.1}}},
	} {
		got, _ := r.against("b")
		assert.Equal(t, want, got)
	}
}
