//go:build linux && external

package plugin

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// LOCK-004: Python loads neither a bytecode cache nor a module that is beside
// the listed files, also in a package such as the runtime of "ferment plugin
// new".
func TestPythonLoadsWhatIsListed(t *testing.T) {
	const python = "/usr/bin/python3"
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "shared"), 0o700))
	write("part.py", "print('planted')\n")
	write("shared/__init__.py", "print('planted too')\n")
	compile := exec.Command(python, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", dir)
	require.NoError(t, compile.Run())
	write("part.py", "print('approved')\n")
	write("shared/__init__.py", "print('package')\n")
	write("shared/beside.py", "print('beside')\n")
	write("main.py", `
import importlib, part, shared
for name in ("colorsys", "shared.beside"):
    try:
        importlib.import_module(name)
    except OSError as e:
        print(type(e).__name__)
try:
    import sitecustomize  # of the system, read at each start; it may be a link to /etc
except ImportError:
    pass
except OSError as e:
    print("sitecustomize:", type(e).__name__)
`)
	without := loadedWithout(t, python, dir)
	require.Contains(t, without, "planted\nplanted too\nbeside\n", "the caches are ones that Python loads")
	write("colorsys.py", "print('shadow')\n")
	listed := []string{"main.py", "part.py", "shared/__init__.py"}
	assert.Equal(t, "approved\npackage\nPermissionError\nPermissionError\n", interpreted(t, dir, listed, python, "main.py"))
}

// LOCK-004: Node loads the listed modules and the granted packages, and no
// module beside them.
func TestNodeLoadsWhatIsListed(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "node_modules/dep"), 0o700))
	for name, text := range map[string]string{
		"package.json":                  `{"type":"module"}`,
		"main.mjs":                      "import './part.mjs'\nimport 'dep'\nawait import('./beside.mjs').catch(e => console.log(e.code))\n",
		"part.mjs":                      "console.log('approved')\n",
		"beside.mjs":                    "console.log('planted')\n",
		"node_modules/dep/package.json": `{"name":"dep","main":"index.js"}`,
		"node_modules/dep/index.js":     "console.log('package')\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	node, err := exec.LookPath("node")
	require.NoError(t, err)
	assert.Equal(t, "approved\npackage\nEACCES\n", interpreted(t, dir, []string{"main.mjs", "part.mjs"}, node, "main.mjs"))
}

// loadedWithout returns the output of the program without confinement.
func loadedWithout(t *testing.T, python, dir string) string {
	t.Helper()
	cmd := exec.Command(python, "main.py")
	cmd.Dir = dir
	out, err := cmd.Output()
	require.NoError(t, err)
	return string(out)
}
