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

// LRN-006: the comparison is fair. Both orders have the same questions and candidates,
// so they accept the same answers; the figures of the cascade are those that the draws
// imply. Which order wins is not asserted, except that one which learns leaves a model
// that breaks.
func TestComparisonIsFair(t *testing.T) {
	bin := t.TempDir()
	t.Chdir("../..")
	for target, program := range map[string]string{"ferment": "./host/ferment", "plugins/scripted": "./plugins/scripted"} {
		out, err := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(bin, target), program).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	var out bytes.Buffer
	results, err := show(&out, bin, true)
	require.NoError(t, err, "%s", out.String())
	t.Log(out.String())
	require.Len(t, results, len(portfolios))
	for _, p := range portfolios {
		r := results[p.name]
		for seed, f := range r[cascade] {
			questions := draw(p, f.asked, uint64(seed))
			attempts := make([][]string, len(questions))
			for i, q := range questions {
				for _, name := range models {
					attempts[i] = append(attempts[i], name)
					if len(q.right) > 0 && q.right[0] == name {
						break
					}
				}
			}
			assert.Equal(t, count(p, questions, attempts), f, "%s, seed %d", p.name, seed)
			assert.Equal(t, f.accepted, r[learned][seed].accepted, "%s, seed %d", p.name, seed)
			assert.GreaterOrEqual(t, r[learned][seed].attempts, f.asked)
		}
	}
	for i, f := range results[portfolios[0].name][learned] {
		assert.Less(t, f.regret, results[portfolios[0].name][cascade][i].regret/2, "seed %d", i)
	}
}
