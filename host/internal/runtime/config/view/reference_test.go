package view_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
)

// HCL-001: the committed reference matches the specification. After a change run
// go test ./host/internal/runtime/config/view -run TestReference -update
func TestReference(t *testing.T) {
	text, err := view.Reference("")
	require.NoError(t, err)
	configtest.Golden(t, "../reference.md", []byte(text+view.LimitsText()))
}

// HCL-008: the reference of one block, and an unknown block.
func TestReferenceOfBlock(t *testing.T) {
	text, err := view.Reference("plugin.restart")
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(text, "# `plugin.restart`\n\nRestart of a process that exits by itself.\n\n- `policy`: one of on-failure, always, never; default `\"on-failure\"`; U"), text)
	_, err = view.Reference("plugin.restrat")
	var unknown *view.UnknownPathError
	require.ErrorAs(t, err, &unknown)
	assert.Equal(t, "plugin.restart", unknown.Nearest)
	v, err := view.ReferenceValue("plugin")
	require.NoError(t, err)
	assert.Contains(t, v.String(), `:path "plugin.restart.max"`)
}

// HCL-042: the printed limits are the effective ones.
func TestLimits(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range view.Limits() {
		assert.False(t, seen[l.Name], l.Name)
		seen[l.Name] = true
		assert.NotEmpty(t, l.Value)
	}
	raw, err := os.ReadFile("../reference.md")
	require.NoError(t, err)
	assert.Contains(t, string(raw), "- plugin blocks: 256\n- capability blocks: 4096\n- intent blocks: 1024\n")
}

// The reference of a plugin is its schema in terms of the configuration language.
func TestPluginReference(t *testing.T) {
	c, ds := configtest.Load(t, configtest.Sample)
	require.Empty(t, ds)
	text, _, err := view.PluginReference(c, "chess")
	require.NoError(t, err)
	assert.Equal(t, "# config of plugin \"chess\" (chess 1.0.0)\n\n"+
		"- `engine`: one of builtin, uci, search engine; default `\"builtin\"`\n"+
		"- `depth`: int 1..64, search depth in plies; default `6`\n"+
		"- `path`: path; only with engine = \"uci\"\n"+
		"- `api_key`: secret\n"+
		"\n## `model \"NAME\"`\n\n- `name`: string; required\n"+
		"\n## `extra`\n\nThe block accepts attributes of any name.\n", text)
	_, _, err = view.PluginReference(c, "chss")
	var unknown *view.UnknownPathError
	require.ErrorAs(t, err, &unknown)
	assert.Equal(t, "chess", unknown.Nearest)
}
