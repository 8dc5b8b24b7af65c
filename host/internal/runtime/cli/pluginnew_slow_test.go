//go:build slow

package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/scaffold"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// SDK-005: each kind in Go builds and passes its conformance test, and the
// host serves it with the generated configuration. The other languages need
// their runtimes: pluginnew_external_test.go.
func TestNewPluginInGo(t *testing.T) {
	t.Parallel()
	proof.Size(t, "scaffolds in Go", len(triedIn[scaffold.Go]), len(scaffold.Kinds()))
	for _, kind := range kindsToTry(scaffold.Go) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := project(t, kind, scaffold.Go)
			check(t, dir)
			w := newWorld(t)
			w.dir = dir
			formatted := w.run("fmt", "--check", "--diff", "ferment.hcl")
			assert.Zero(t, formatted.code, "%s%s", formatted.stdout, formatted.stderr)
			try, err := os.ReadFile(filepath.Join(dir, "README.md"))
			require.NoError(t, err)
			answered := w.shell(lastIndented(string(try)))
			assert.Zero(t, answered.code, "%s%s", answered.stdout, answered.stderr)
		})
	}
}
