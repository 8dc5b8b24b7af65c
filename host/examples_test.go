package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
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

// What each plan of examples/plans answers; the test knows all of them.
func TestExamplePlans(t *testing.T) {
	answers := map[string]string{
		"hello.edn":    `{:text "Hello, world!"}`,
		"slots.edn":    `{:text "In short: Bees dance to tell where food is. Other bees read the dance in the dark hive."}`,
		"parallel.edn": `{:model [1 2] :move "h5f7" :positions 8902}`,
		"gates.edn":    `{:mate 1 :move "d1d8"}`,
		"failure.edn":  `{:text "No move: no move can be played: 1/2-1/2 by stalemate"}`,
		"map.edn":      "", // below
		"nested.edn":   `{:text "Dear reader, this is about the sun, the angle and the distance."}`,
		"handles.edn":  `{:all [{:status :unsat} {:model [1 2] :status :sat}] :one :sat}`,
		"proof.edn":    `{:status :sat :valid true}`,
		"tests.edn":    `{:failed 0 :passed 6}`,
	}
	files, err := filepath.Glob("../examples/plans/*.edn")
	require.NoError(t, err)
	require.Len(t, files, len(answers))
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			out, problems, code := ferment(t, "run", "examples/plans/"+name, "--edn")
			require.Zero(t, code, "%s%s", out, problems)
			response, err := edn.ReadString(out)
			require.NoError(t, err)
			answer := response.Key("result").Key("out")
			if name != "map.edn" {
				assert.Equal(t, answers[name], answer.String())
				return
			}
			moves := answer.Key("moves")
			require.Equal(t, 3, moves.Len())
			second, _ := moves.Nth(1)
			assert.True(t, edn.Equal(edn.K("input/invalid"), second.Key("failure/type")), "%s", second)
			for i, want := range map[int]string{0: `{:board 0 :move "d1d8"}`, 2: `{:board 2 :move "a7a8"}`} {
				got, _ := moves.Nth(i)
				assert.Equal(t, want, got.String())
			}
		})
	}
}

// HCL-009, HCL-011: the shipped configuration is valid without a warning, in
// canonical layout, and short enough to be read.
func TestShippedConfiguration(t *testing.T) {
	out, problems, code := ferment(t, "validate", "--strict")
	assert.Zero(t, code, "%s%s", out, problems)
	out, problems, code = ferment(t, "fmt", "--check", "--diff", "ferment.hcl", "examples/plugins/wordcount/ferment.hcl")
	assert.Zero(t, code, "%s%s", out, problems)
	text, err := os.ReadFile("../ferment.hcl")
	require.NoError(t, err)
	assert.LessOrEqual(t, bytes.Count(text, []byte("\n")), 600)
}
