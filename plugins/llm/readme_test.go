package main

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/provider/dialect"
	"github.com/fermenthq/ferment/sdk/contract"
)

// The README names existing error types and every preset, and its blocks grant the network, without
// which the plugin does not start.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for _, m := range regexp.MustCompile("`:((?:provider|stream|format|schema)/[a-z-]+)`").FindAllStringSubmatch(string(text), -1) {
		_, ok := contract.Lookup(m[1])
		assert.True(t, ok, m[1])
	}
	blocks := regexp.MustCompile("(?s)```hcl\n(plugin .*?)```").FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		assert.Regexp(t, `isolation \{\s+network = "(ports|loopback)"`, block[1])
	}
	for _, p := range dialect.Presets() {
		assert.Contains(t, string(text), "`"+p.Name+"`")
	}
}
