package telemetry_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/telemetry"
)

const operations = "../../../../examples/operations"

// TEL-004: the dashboard and the alert rules name only metrics that exist, and the
// dashboard shows every one of them.
func TestOperationsExamples(t *testing.T) {
	known := map[string]bool{}
	for _, f := range telemetry.Families() {
		known[f.Name] = true
	}
	named := func(file string) map[string]bool {
		text, err := os.ReadFile(filepath.Join(operations, file))
		require.NoError(t, err)
		names := map[string]bool{}
		for _, name := range regexp.MustCompile(`\bferment_[a-z_]+`).FindAllString(string(text), -1) {
			names[familyOf(name)] = true
		}
		for name := range names {
			assert.True(t, known[name], "%s names %s", file, name)
		}
		return names
	}
	assert.NotEmpty(t, named("alerts.yml"))
	shown := named("dashboard.json")
	for name := range known {
		assert.True(t, shown[name], "no panel shows %s", name)
	}
	text, err := os.ReadFile(filepath.Join(operations, "dashboard.json"))
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	ids := map[int]bool{}
	for _, p := range dashboard.Panels {
		assert.False(t, ids[p.ID], p.Title)
		ids[p.ID] = true
		assert.NotEmpty(t, p.Targets, p.Title)
	}
}
