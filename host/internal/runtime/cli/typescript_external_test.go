//go:build external

package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// HTTP-001: a TypeScript client whose types are generated from the document compiles
// strictly, and works against a daemon.
func TestTypeScriptClient(t *testing.T) {
	w := asking(t)
	s := w.serve()
	require.Equal(t, 0, w.run("user", "add", "ann", "--no-password", "--role", "user").code)
	token := plain(w.data("token", "create", "ann").Key("token"))
	a := s.request(t.Context(), "GET", "/openapi.json", "", "Accept", "application/json")
	require.Equal(t, 200, a.status)
	folder := filepath.Join("testdata", "typescript")
	generated := filepath.Join("node_modules", ".generated")
	require.NoError(t, os.RemoveAll(filepath.Join(folder, generated)))
	require.NoError(t, os.MkdirAll(filepath.Join(folder, generated), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(folder, generated, "openapi.json"), a.body, 0o644))
	run := func(program string, args ...string) string {
		cmd := exec.Command(program, args...)
		cmd.Dir = folder
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s %s\n%s", program, strings.Join(args, " "), out)
		return string(out)
	}
	run("npx", "--no-install", "openapi-typescript", filepath.Join(generated, "openapi.json"), "--empty-objects-unknown", "-o",
		filepath.Join(generated, "schema.d.ts"))
	run("npx", "--no-install", "tsc", "-p", ".")
	assert.Contains(t, run("node", filepath.Join(generated, "client.js"), "http://"+s.address, token), "OK")
	s.stop()
}
