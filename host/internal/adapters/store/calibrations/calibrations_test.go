package calibrations_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/adapters/store/calibrations"
	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
	"github.com/fermenthq/ferment/sdk/contract"
)

// JDG-010: a record is read as it was kept; a judge without one has none.
func TestRecord(t *testing.T) {
	dir := calibrations.Dir(t.TempDir())
	r, err := dir.Record("grader")
	require.NoError(t, err)
	assert.Nil(t, r)

	kept := calibration.Record{
		Judge: "grader", Capability: "judge/llm", Key: "k", Anchors: "h", Good: 20, Bad: 20,
		At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Kappa: 0.75, Sensitivity: 0.9, Specificity: 0.85,
	}
	require.NoError(t, dir.Keep(kept))
	r, err = dir.Record("grader")
	require.NoError(t, err)
	assert.Equal(t, kept.Value().String(), r.Value().String())
	info, err := os.Stat(dir.File("grader"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())

	for name, text := range map[string]string{
		"no EDN": "{", "no record": "{:a 1}", "too large": strings.Repeat(";", 64<<10+1),
	} {
		require.NoError(t, os.WriteFile(dir.File("grader"), []byte(text), 0o600))
		_, err = dir.Record("grader")
		assert.ErrorContains(t, err, "grader", name)
	}
	assert.Error(t, calibrations.Dir(dir.File("grader")).Keep(kept), "its directory is a file")
}

func TestAnchors(t *testing.T) {
	dir := t.TempDir()
	_, err := calibrations.Dir("").Anchors(filepath.Join(dir, "none.edn"))
	assert.ErrorIs(t, err, contract.OfType("not-found"))
	for name, text := range map[string]string{"a.edn": "[", "a.json": "[{"} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err = calibrations.Dir("").Anchors(file)
		assert.ErrorIs(t, err, contract.OfType("invalid-request"), name)
	}
}
