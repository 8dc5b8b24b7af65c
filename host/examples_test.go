package host_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ferment runs the built program in the root of the repository, as a reader of
// the README does.
func ferment(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	path, err := filepath.Abs("../bin/ferment")
	require.NoError(t, err)
	_, err = os.Stat(path)
	require.NoError(t, err, "build it first: make build")
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = ".."
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err = cmd.Run()
	if exit, ok := err.(*exec.ExitError); ok {
		return out.String(), problems.String(), exit.ExitCode()
	}
	require.NoError(t, err)
	return out.String(), problems.String(), 0
}

// inModels runs the built program in examples/models.
func inModels(t *testing.T, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return within(t, "../examples/models", env, args...)
}

// within runs the built program in a directory, with an almost empty environment.
func within(t *testing.T, dir string, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	path, err := filepath.Abs("../bin/ferment")
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = dir
	cmd.Env = append([]string{"HOME=" + t.TempDir(), "FERMENT_EXAMPLE_DATA=" + t.TempDir()}, env...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err = cmd.Run()
	if exit, ok := err.(*exec.ExitError); ok {
		return out.String(), problems.String(), exit.ExitCode()
	}
	require.NoError(t, err)
	return out.String(), problems.String(), 0
}

const extracted = "It is 503 metres long and carries eight lanes of traffic. Two railway tracks were laid beside the lanes. About 160,000 vehicles cross it on a day.\n"

// HCL-009, HCL-011: the shipped configuration is valid without a warning, in
// canonical layout, and short enough to be read.
func TestShippedConfiguration(t *testing.T) {
	out, problems, code := ferment(t, "validate", "--strict")
	assert.Zero(t, code, "%s%s", out, problems)
	out, problems, code = ferment(t, "fmt", "--check", "--diff", "ferment.hcl", "examples/plugins/wordcount/ferment.hcl", "examples/models/ferment.hcl")
	assert.Zero(t, code, "%s%s", out, problems)
	text, err := os.ReadFile("../ferment.hcl")
	require.NoError(t, err)
	assert.LessOrEqual(t, bytes.Count(text, []byte("\n")), 680)
}
