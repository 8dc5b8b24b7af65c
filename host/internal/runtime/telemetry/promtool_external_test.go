//go:build external

package telemetry_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal/tally"
	"github.com/fermenthq/ferment/host/internal/runtime/telemetry"
)

// TEL-004: "promtool check metrics" has no complaint about any metric.
func TestPromtool(t *testing.T) {
	o := &owner{meter: tally.NewMeter(at), samples: sampled()}
	o.run("run_1", "a/b", "c/x", "good", "eval/must-failed")
	var commits telemetry.Commits
	commits.Add(1, 1, time.Millisecond)
	commits.AddDamage()
	cmd := exec.Command("promtool", "check", "metrics")
	cmd.Stdin = strings.NewReader(textOf(t, telemetry.NewMetrics(o, &commits, 2000)))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Empty(t, string(out))
}

// The alert rules and the configuration of the examples are valid.
func TestPromtoolRules(t *testing.T) {
	out, err := exec.Command("promtool", "check", "rules", operations+"/alerts.yml").CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command("promtool", "check", "config", "--syntax-only", operations+"/prometheus.yml").CombinedOutput()
	require.NoError(t, err, "%s", out)
}
