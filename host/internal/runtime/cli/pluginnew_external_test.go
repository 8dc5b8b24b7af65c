//go:build external

package cli_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/scaffold"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// SDK-005: generated projects in Python and for Node pass their conformance
// tests, and the host serves them with the generated configuration. The test
// needs python3 with grpcio, protobuf and cryptography, node, and the packages
// of examples/plugins/outline. The kinds of one language share their runtime,
// so usually one of them runs all checks of its project, and the others only
// those of their kind and calls.
func TestNewPluginInOtherLanguages(t *testing.T) {
	t.Parallel()
	proof.Size(t, "scaffolds in Python and Node", len(triedIn[scaffold.Python])+len(triedIn[scaffold.Node]), 2*len(scaffold.Kinds()))
	for _, lang := range []string{scaffold.Python, scaffold.Node} {
		for i, kind := range kindsToTry(lang) {
			t.Run(lang+" "+kind, func(t *testing.T) {
				t.Parallel()
				dir := project(t, kind, lang)
				if lang == scaffold.Node {
					withPackages(t, dir)
				}
				if i == 0 || proof.Of(false, true) {
					check(t, dir)
					return
				}
				program := map[string][]string{scaffold.Python: {"/usr/bin/python3", "plugin.py"}, scaffold.Node: {"node", "plugin.mjs"}}[lang]
				w := newWorld(t)
				w.dir = dir
				got := w.run(slices.Concat([]string{"conform", "--run", "^" + kind + "/|^core/(configure|describe|invoke|run)/", "--samples", "samples.edn", "--"}, program)...)
				assert.Zero(t, got.code, "%s%s", got.stdout, got.stderr)
				assert.Contains(t, got.stdout, kind+"/")
			})
		}
	}
}

// withPackages copies the packages of examples/plugins/outline, which has the
// same package lock file, into a project for Node. The sandbox of the plugin
// would not follow a link.
func withPackages(t *testing.T, dir string) {
	t.Helper()
	packages := filepath.Join(built.module, "examples", "plugins", "outline", "node_modules")
	require.DirExists(t, packages, "run npm ci in examples/plugins/outline")
	require.NoError(t, os.CopyFS(filepath.Join(dir, "node_modules"), os.DirFS(packages)))
}

// SDK-005: two programs in one folder share the runtime, and the host serves
// both within their isolation.
func TestProgramsShareTheRuntime(t *testing.T) {
	t.Parallel()
	for lang, program := range map[string]string{scaffold.Python: "plugin.py", scaffold.Node: "plugin.mjs"} {
		t.Run(lang, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dir = project(t, "tool", lang)
			if lang == scaffold.Node {
				withPackages(t, w.dir)
			}
			second := scaffold.Project{Name: "second", Kind: "checker", Lang: lang}
			second.Interpreter = scaffold.DefaultInterpreter(lang)
			files, err := second.Files()
			require.NoError(t, err)
			config, err := os.ReadFile(filepath.Join(w.dir, "ferment.hcl"))
			require.NoError(t, err)
			other := "second" + filepath.Ext(program)
			for _, f := range files {
				switch f.Path {
				case program:
					w.write(other, string(f.Text))
				case "ferment.hcl":
					_, block, _ := strings.Cut(string(f.Text), "\nplugin ")
					w.write("ferment.hcl", string(config)+"\nplugin "+strings.ReplaceAll(block, program, other))
				}
			}
			for intent, tried := range map[string]struct{ input, want string }{
				"my-tool/count": {`{:text "to be or not to be"}`, `:distinct 4`},
				"second/check":  {`{:text "short"}`, `:ok? true`},
			} {
				out := w.run("act", intent, tried.input, "--edn")
				require.Zero(t, out.code, "%s%s", out.stdout, out.stderr)
				assert.Contains(t, out.stdout, tried.want)
			}
		})
	}
}
