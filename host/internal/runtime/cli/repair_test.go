package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// JRN-030, CLI-002, CLI-003: a daemon does not start with a damaged journal and
// names the command that repairs it. Afterwards it starts, does not resume the run
// that was cut, and has all others.
func TestJournalRepair(t *testing.T) {
	t.Parallel()
	w := recording(t)
	assert.Equal(t, 5, w.run("admin", "journal-repair").code, "there is no journal")
	s := w.serve()
	require.Equal(t, 0, w.run("act", "mine/data", "{}").code)
	w.start("", "act", "mine/hang", "{}")
	require.Eventually(t, func() bool { return len(w.listed("run", "--status", "running")) == 1 }, 20*time.Second, 20*time.Millisecond)
	ids := w.listed("run")
	running := w.run("admin", "journal-repair")
	assert.Equal(t, 6, running.code, running.stderr)
	assert.Contains(t, running.stderr, "ferment admin drain")
	assert.Contains(t, running.stderr, "admin/conflict")
	s.signal(syscall.SIGKILL)
	s.wait()
	sound := w.data("admin", "journal-repair")
	assert.Equal(t, "false", sound.Key("damaged?").String())
	assert.Equal(t, "2", sound.Key("runs").String())
	assert.Equal(t, "2 runs verified, none damaged\n", w.run("admin", "journal-repair").stdout)

	path := filepath.Join(w.dir, "var", "ferment.db")
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	record := bytes.Index(file, []byte(`:run "`+ids[0]+`" :seq 3`))
	require.Positive(t, record)
	file[record+1] ^= 1
	require.NoError(t, os.WriteFile(path, file, 0o600))
	for _, args := range [][]string{{"serve"}, {"serve", "--json"}} {
		refused := w.run(args...)
		assert.Equal(t, 65, refused.code, refused.stderr)
		assert.Contains(t, refused.stderr, ids[0])
		assert.Contains(t, refused.stderr, "ferment admin journal-repair")
	}
	verified := w.run("runs", "verify")
	assert.Equal(t, 3, verified.code)
	assert.Contains(t, verified.stderr, "ferment admin journal-repair")

	dry := w.run("admin", "journal-repair", "--dry-run", "--edn")
	assert.Equal(t, 3, dry.code, dry.stderr)
	plan := dry.value(t)
	asJSON := jsonValues(t, w.run("admin", "journal-repair", "--dry-run", "--json").stdout)
	require.Len(t, asJSON, 1)
	assert.Len(t, asJSON[0], plan.Len())
	text := w.run("admin", "journal-repair", "--dry-run")
	assert.Contains(t, text.stdout, "nothing was done (dry run)")
	assert.Contains(t, text.stdout, "suspended")
	fits(t, text.stdout)
	assert.Equal(t, 65, w.run("serve").code, "a dry run repairs nothing")
	done := w.data("admin", "journal-repair", "--yes")
	kept, _ := done.Key("kept").AsString()
	assert.Equal(t, filepath.Dir(path), filepath.Dir(kept))
	same := done.Dissoc(edn.K("kept")).AssocKey("dry-run?", edn.Bool(true))
	assert.Equal(t, plan.String(), same.String())
	cut, _ := done.Key("damaged").Nth(0)
	assert.Equal(t, `"`+ids[0]+`"`, cut.Key("run").String())
	old, err := os.ReadFile(filepath.Join(kept, "ferment.db"))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(file[100:], old[100:]))
	assert.FileExists(t, filepath.Join(kept, "cut.edn"))

	s = w.serve()
	assert.Equal(t, []string{"suspended", "completed"}, w.listed("status"))
	assert.Equal(t, ids, w.listed("run"))
	assert.Equal(t, ":journal/damaged", w.data("runs", "show", ids[0]).Key("suspended").Key("why").String())
	assert.True(t, w.data("runs", "cancel", ids[0]).Key("cancel/accepted?").Truthy())
	require.Eventually(t, func() bool { return w.listed("status")[0] == "canceled" }, 20*time.Second, 20*time.Millisecond)
	assert.True(t, w.data("runs", "verify").Key("ok?").Truthy())
	s.stop()
}

// JRN-030: a database without its first page is salvaged.
func TestJournalRepairOfAPage(t *testing.T) {
	t.Parallel()
	w := recording(t)
	s := w.serve()
	require.Equal(t, 0, w.run("act", "mine/data", "{}").code)
	ids := w.listed("run")
	s.stop()
	path := filepath.Join(w.dir, "var", "ferment.db")
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	clear(file[:4096])
	require.NoError(t, os.WriteFile(path, file, 0o600))
	refused := w.run("serve")
	assert.Equal(t, 65, refused.code, refused.stderr)
	assert.Contains(t, refused.stderr, "ferment admin journal-repair")
	assert.Contains(t, w.run("runs", "list").stderr, "ferment admin journal-repair")
	text := w.run("admin", "journal-repair", "--yes")
	assert.Equal(t, 0, text.code, text.stderr)
	assert.Contains(t, text.stdout, "damaged pages: ")
	fits(t, text.stdout)
	s = w.serve()
	assert.Equal(t, ids, w.listed("run"))
	assert.True(t, w.data("runs", "verify").Key("ok?").Truthy())
	s.stop()
}
