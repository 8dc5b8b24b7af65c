package wiretest_test

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// LLM-053: no program links the test servers.
func TestOnlyTestsImportTheServer(t *testing.T) {
	seen := 0
	require.NoError(t, filepath.WalkDir("../../../..", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "node_modules" {
			return filepath.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		seen++
		for _, i := range file.Imports {
			assert.NotContains(t, i.Path.Value, "internal/provider/wiretest", path)
			assert.NotContains(t, i.Path.Value, "internal/provider/livetest", path)
		}
		return nil
	}))
	assert.Greater(t, seen, 100, "the walk found the programs")
}

// LLM-003: no program links a vendor's client.
func TestNoClientOfAVendorIsRequired(t *testing.T) {
	text, err := os.ReadFile("../../../../go.mod")
	require.NoError(t, err)
	assert.Contains(t, string(text), "require")
	for _, client := range []string{"anthropic-sdk-go", "openai-go", "ollama/ollama"} {
		assert.NotContains(t, string(text), client)
	}
}

// LLM-053: no transcript holds a key.
func TestNoKeysInTranscripts(t *testing.T) {
	key := regexp.MustCompile(`(?i)\b(sk|pk|key|bearer)[-_ ][A-Za-z0-9_-]{16,}|authorization|x-api-key`)
	files, err := filepath.Glob("../testdata/wire/*/*.wire")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.False(t, key.Match(text), file)
	}
}
