package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// OPS-007, CLI-005: the schema of the journal is changed by command while no daemon
// runs; a lower version needs a flag, and a daemon brings a file up again.
func TestMigrate(t *testing.T) {
	t.Parallel()
	w := recording(t)
	assert.Equal(t, 5, w.run("admin", "migrate").code, "there is no journal")
	s := w.serve()
	assert.Equal(t, 6, w.run("admin", "migrate").code, "a daemon runs")
	s.stop()
	file := filepath.Join(w.dir, "var", "ferment.db")
	latest := w.data("admin", "migrate", "--dry-run")
	assert.Equal(t, latest.Key("to").String(), latest.Key("from").String())
	assert.Contains(t, w.run("admin", "migrate").stdout, file+": the schema has version ")

	lossy := w.run("admin", "migrate", "--to", "1")
	assert.Equal(t, 6, lossy.code, lossy.stderr)
	assert.Contains(t, lossy.stderr, "--accept-loss")
	assert.NotContains(t, lossy.stderr, "job")
	for _, verb := range []string{"migrate", "rollback"} { // a dry run says what the command would do
		plan := func(more ...string) string {
			return w.run(append([]string{"admin", verb, "--to", "1", "--dry-run"}, more...)...).stdout
		}
		assert.Contains(t, plan(), "would be refused without --accept-loss", verb)
		assert.Contains(t, plan("--accept-loss"), "would be brought from version ", verb)
		accepted := w.data("admin", verb, "--to", "1", "--dry-run", "--accept-loss")
		assert.Equal(t, "false", accepted.Key("refused?").String(), verb)
	}
	require.Equal(t, "1", w.data("admin", "migrate", "--to", "1", "--accept-loss", "--yes").Key("to").String())
	old := w.run("runs", "list")
	assert.NotEqual(t, 0, old.code)
	assert.Contains(t, old.stderr, "ferment admin migrate")

	// OPS-007: a daemon that may not migrate says what does.
	config, err := os.ReadFile(filepath.Join(w.dir, "ferment.hcl"))
	require.NoError(t, err)
	require.Contains(t, string(config), "store {")
	w.write("ferment.hcl", strings.Replace(string(config), "store {", "store {\n  auto_migrate = false", 1))
	refused := w.run("serve")
	assert.Equal(t, 78, refused.code, refused.stderr)
	assert.Contains(t, refused.stderr, "schema has version 1, this program needs ")
	assert.Contains(t, refused.stderr, `run \"ferment admin migrate\"`)
	assert.NotContains(t, refused.stderr, "validate")
	assert.Contains(t, w.run("admin", "migrate").stdout, "was brought from version 1 to "+latest.Key("to").String())
	assert.Equal(t, 0, w.run("runs", "list").code)
}
