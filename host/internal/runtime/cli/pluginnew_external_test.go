//go:build external

package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/scaffold"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// SDK-005: kinds in Python and for Node passes its conformance test as it
// comes, and the host serves it with the configuration that comes with it. It
// needs python3 with grpcio, protobuf and cryptography, node, and the packages
// of examples/plugins/outline.
func TestNewPluginInOtherLanguages(t *testing.T) {
	t.Parallel()
	packages := filepath.Join(built.module, "examples", "plugins", "outline", "node_modules")
	require.DirExists(t, packages, "run npm ci in examples/plugins/outline")
	proof.Size(t, "scaffolds in Python and Node", len(triedIn[scaffold.Python])+len(triedIn[scaffold.Node]), 2*len(scaffold.Kinds()))
	for _, lang := range []string{scaffold.Python, scaffold.Node} {
		for _, kind := range kindsToTry(lang) {
			t.Run(lang+" "+kind, func(t *testing.T) {
				t.Parallel()
				dir := project(t, kind, lang)
				if lang == scaffold.Node {
					// The same lock file, so the same packages. A link would lead
					// out of what the plugin may read.
					require.NoError(t, os.CopyFS(filepath.Join(dir, "node_modules"), os.DirFS(packages)))
				}
				check(t, dir)
			})
		}
	}
}
