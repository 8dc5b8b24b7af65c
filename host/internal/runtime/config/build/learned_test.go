package build_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
)

// learnedFile is an intent whose dispatch learns, below a default that sets a part.
func learnedFile(done, dispatch string) string {
	return `dispatch "default" {
  learned {
    prior     = [2, 1]
    explore   = 0.1
    half_life = "7d"
  }
}

dispatch "d" {
  policy = "learned"
` + dispatch + `
}

check "good" {
  condition = true
}

intent "chess/best-move" {
  in       = "req/chess.position"
  out      = "res/chess.move+pv+eval"
  dispatch = "d"
` + done + `
}

` + configtest.OnePlugin
}

// LRN-001, HCL-005: the block learned is merged attribute by attribute, and what is not
// written has its default. The policy is off by default.
func TestLearnedSettings(t *testing.T) {
	c, ds := configtest.LoadWith(t, learnedFile(`  done {
    must = ["good"]
  }`, `  retry {
    fallback = 1
  }

  learned {
    prior       = { "chess/engine" = [8, 2] }
    explore     = 0
    cost_weight = 1.5
    bucket      = "size"
  }`), configtest.Describer{"chess": configtest.Chess()}, nil)
	require.Empty(t, ds, c.Report(0).Text(false))
	p, err := c.Generation.Policies.For("chess/best-move").Resolve()
	require.NoError(t, err)
	assert.Equal(t, &policy.Learned{
		Prior:         policy.Prior{Passes: 2, Fails: 1},
		Priors:        map[string]policy.Prior{"chess/engine": {Passes: 8, Fails: 2}},
		CostWeight:    1.5,
		LatencyWeight: 0.1,
		HalfLife:      7 * 24 * time.Hour,
		Bucket:        policy.BucketSize,
	}, p.Learned)

	c, _ = configtest.LoadWith(t, configtest.OnePlugin, configtest.Describer{"chess": configtest.Chess()}, nil)
	p, err = c.Generation.Policies.For("chess/best-move").Resolve()
	require.NoError(t, err)
	assert.Equal(t, policy.Declared, p.Ordering)
	assert.Nil(t, p.Learned)
}

// LRN-007, HCL-031: an intent that learns without an objective must check is a warning,
// and so is one that never tries another candidate, or counts no outcome. A prior names a capability.
func TestLearnedWarnings(t *testing.T) {
	const good, fallback = "  done {\n    must = [\"good\"]\n  }", "  retry {\n    fallback = 1\n  }"
	for name, row := range map[string]struct {
		done, dispatch string
		typ, says      string
	}{
		"sound":          {good, fallback, "", ""},
		"no must check":  {"  done {\n    must   = [\"schema-valid\"]\n    should = [\"good\"]\n  }", fallback, "config/unused", "no must check besides schema-valid"},
		"should only":    {"  done {\n    should = [\"good\"]\n  }", fallback, "config/unused", "no must check besides schema-valid"},
		"no fallback":    {good, "", "config/unused", "no fallback"},
		"unknown prior":  {good, fallback + "\n\n  learned {\n    prior = { \"chess/enginee\" = [1, 1] }\n  }", "config/dangling-reference", "chess/enginee"},
		"short by name":  {good, fallback + "\n\n  learned {\n    prior = { \"chess/engine\" = [1] }\n  }", "config/range", "1 member"},
		"neither":        {good, fallback + "\n\n  learned {\n    prior = 1\n  }", "config/type", "is not a list"},
		"prior of one":   {good, fallback + "\n\n  learned {\n    prior = [1]\n  }", "config/range", "1 member"},
		"too much luck":  {good, fallback + "\n\n  learned {\n    explore = 0.6\n  }", "config/range", "explore"},
		"unknown bucket": {good, fallback + "\n\n  learned {\n    bucket = \"color\"\n  }", "config/range", "bucket"},
	} {
		t.Run(name, func(t *testing.T) {
			c, ds := configtest.LoadWith(t, learnedFile(row.done, row.dispatch), configtest.Describer{"chess": configtest.Chess()}, nil)
			if row.typ == "" {
				assert.Empty(t, ds, c.Report(0).Text(false))
				return
			}
			require.Len(t, ds, 1, c.Report(0).Text(false))
			assert.Equal(t, row.typ, ds[0].Type)
			assert.Contains(t, ds[0].Message, row.says)
		})
	}
	race := fallback + "\n\n  strategy = \"race\""
	_, ds := configtest.LoadWith(t, learnedFile(good, race), configtest.Describer{"chess": configtest.Chess()}, nil)
	require.Len(t, ds, 2, "the second one is that the race has one candidate")
	assert.Equal(t, "config/unused", ds[0].Type)
	assert.Contains(t, ds[0].Message, "learns nothing")
}
