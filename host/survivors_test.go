package host_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each mutant that the tests are known not to notice is one of a function that exists: the
// run of all mutants takes hours, and would end with what was renamed since.
func TestExplainedMutantsExist(t *testing.T) {
	text, err := os.ReadFile("../.ci/mutate/survivors.txt")
	require.NoError(t, err)
	explained := 0
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		file, mutant, _ := strings.Cut(line, " ")
		name, _, found := strings.Cut(mutant, ": ")
		require.True(t, found, line)
		code, err := os.ReadFile(filepath.Join("..", file))
		if !assert.NoError(t, err, line) {
			continue
		}
		name = name[strings.LastIndex(name, ".")+1:]
		assert.Regexp(t, `(?m)^func (\([^)]*\) )?`+name+`[\[(]`, string(code), line)
		explained++
	}
	assert.NotZero(t, explained)
}
