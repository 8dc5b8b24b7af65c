package main

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/mlx/internal/settings"
	"github.com/fermenthq/ferment/sdk/contract"
)

// The README names every setting, and existing error types with their class.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	types := 0
	for _, m := range regexp.MustCompile("(?m)^\\| `:([a-z/-]+)` \\|.*\\| ([a-z]+) \\|$").FindAllStringSubmatch(string(text), -1) {
		row, ok := contract.Lookup(m[1])
		require.True(t, ok, m[1])
		assert.Equal(t, m[2], row.Class.String(), m[1])
		types++
	}
	assert.Equal(t, 10, types)
	form := reflect.TypeFor[settings.Settings]()
	for i := range form.NumField() {
		name, _, _ := strings.Cut(form.Field(i).Tag.Get("edn"), ",")
		assert.Contains(t, string(text), "`"+strings.ReplaceAll(name, "-", "_"), "setting %s", name)
	}
}
