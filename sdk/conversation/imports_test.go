package conversation_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// library are the packages that programs import, and the suites that test
// implementations of their interfaces.
var library = []string{".", "./view", "./agent", "./session", "./conversationtest", "./session/storetest"}

// CNV-001: the library needs the standard library alone and cannot reach a
// database, a network, a process or a serialiser. A suite may use testing.
func TestImports(t *testing.T) {
	const module = "github.com/fermenthq/ferment/"
	forbidden := []string{"net", "database/sql", "encoding/json", "encoding/xml", "encoding/gob", "os/exec", "log/slog"}
	for _, pkg := range library {
		out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", pkg).Output()
		require.NoError(t, err)
		for path := range strings.FieldsSeq(string(out)) {
			assert.True(t, strings.HasPrefix(path, module+"sdk/conversation"), "%s needs %s", pkg, path)
		}
		out, err = exec.Command("go", "list", "-deps", pkg).Output()
		require.NoError(t, err)
		deps := strings.Fields(string(out))
		require.Contains(t, deps, "iter")
		for _, path := range forbidden {
			assert.NotContains(t, deps, path, "%s", pkg)
		}
		assert.Equal(t, pkg == "./session/storetest", slices.Contains(deps, "testing"), "%s", pkg)
	}
}

// CNV-001: the list above is complete.
func TestLibraryIsWhole(t *testing.T) {
	out, err := exec.Command("go", "list", "./...").Output()
	require.NoError(t, err)
	const here = "github.com/fermenthq/ferment/sdk/conversation"
	for path := range strings.FieldsSeq(string(out)) {
		rel := "." + strings.TrimPrefix(path, here)
		assert.True(t, slices.Contains(library, rel) || strings.HasPrefix(rel, "./txclose"), "%s is not tested", path)
	}
}
