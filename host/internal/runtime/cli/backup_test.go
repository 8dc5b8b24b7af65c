package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// elsewhere writes a second configuration of a world, with another data directory.
func (w *world) elsewhere(dir string) (config string) {
	w.t.Helper()
	w.write(dir+".hcl", strings.Replace(w.configuration(), "ferment {\n", "ferment {\n  data_dir = \""+dir+"\"\n", 1))
	return dir + ".hcl"
}

// configuration returns the text of ferment.hcl.
func (w *world) configuration() string {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, "ferment.hcl"))
	require.NoError(w.t, err)
	return string(text)
}

// OPS-008, CLI-005, CLI-007: a backup of a daemon in use, as a folder and as a file, reads
// back; another data directory is filled from it, with the runs, users and tokens, which
// are revoked by flag. What is not as it was written, and a directory that is not empty,
// are refused and changed by nothing.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	w := recording(t)
	s := w.serve()
	for range 3 {
		require.Equal(t, 200, s.ask("mine/data", `{:text "`+strings.Repeat("much ", 100_000)+`"}`).status)
	}
	accepted := s.request(t.Context(), "POST", "/v1/act", envelopeOf("mine/hang", "{}", ":response/type :accepted"))
	require.Equal(t, 202, accepted.status, "%s", accepted.body)
	hangs, _ := accepted.value(t).Key("job/id").AsString()
	s.becomes(hangs, "running")
	require.Equal(t, 0, w.run("user", "add", "ann", "--no-password", "--role", "admin").code)
	require.Equal(t, 0, w.run("token", "create", "ann").code)
	// CLI-006: names of users, sessions and runs are those of the daemon.
	require.Equal(t, 0, w.run("session", "open", "talk").code)
	for verb, name := range map[string]string{"user lock": "ann", "role grant": "ann", "token create": "ann", "session show": "talk", "runs watch": hangs} {
		require.Eventually(t, func() bool { // a busy machine may need more than the limit
			return strings.Contains("\n"+w.run(append([]string{"__complete"}, append(strings.Fields(verb), "")...)...).stdout, "\n"+name+"\n")
		}, time.Minute, 10*time.Millisecond, verb)
	}
	w.write("var/calibration/mine.edn", "{}")

	made := w.data("admin", "backup")
	folder, _ := made.Key("backup").AsString()
	assert.Equal(t, filepath.Join(w.dir, "var", "backups"), filepath.Dir(folder))
	assert.Equal(t, "{:last \""+hangs+"\" :open 1 :records "+made.Key("journal").Key("records").String()+" :runs 4 :suspended 0}", made.Key("journal").String())
	archive := filepath.Join(w.dir, "b.tar")
	got := w.run("admin", "backup", "b.tar")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Contains(t, got.stdout, "4 runs, 1 of them open")
	for wrong, code := range map[string]int{"b.tar": 6, "var/inside": 2, "var/ferment.db": 2} {
		assert.Equal(t, code, w.run("admin", "backup", wrong).code, wrong)
	}
	assert.Equal(t, 6, w.run("admin", "restore", archive, "--yes").code, "a daemon runs")
	require.Equal(t, 0, w.run("runs", "cancel", hangs).code)
	s.stop()
	assert.Equal(t, 0, w.run("admin", "backup", "offline").code, "without a daemon")

	for _, path := range []string{folder, archive, "offline"} {
		got := w.run("admin", "backup", "verify", path)
		assert.Equal(t, 0, got.code, got.stderr)
		assert.Contains(t, got.stdout, "4 runs")
		assert.Contains(t, got.stdout, ": verified")
	}
	assert.Empty(t, hidden(t, w.dir), "nothing of the work is left")
	listed, err := filepath.Glob(filepath.Join(folder, "data", "*"))
	require.NoError(t, err)
	for i := range listed {
		listed[i] = filepath.Base(listed[i])
	}
	assert.Equal(t, []string{".gitignore", "blobs", "calibration", "ferment.db", "secrets.key"}, listed)

	t.Run("restore", func(t *testing.T) {
		config := w.elsewhere("copy")
		assert.Equal(t, 6, w.run("admin", "restore", archive, "--yes").code, "the directory is not empty")
		assert.Equal(t, 2, w.run("admin", "restore", archive, "--config", config).code, "no terminal to ask on")
		dry := w.run("admin", "restore", archive, "--config", config, "--dry-run")
		assert.Equal(t, 0, dry.code, dry.stderr)
		assert.Contains(t, dry.stdout, "open runs come back suspended; tokens stay valid")
		assert.NoDirExists(t, filepath.Join(w.dir, "copy"))
		require.NoError(t, os.Mkdir(filepath.Join(w.dir, "copy"), 0o700))
		w.write("copy/FORMAT", "restoring\n") // as an interrupted restore leaves it
		w.write("copy/ferment.db", "a part")
		held := w.run("serve", "--config", config)
		assert.Equal(t, 78, held.code)
		assert.Contains(t, held.stderr, "a restore that did not end")

		done := w.data("admin", "restore", archive, "--config", config, "--revoke-tokens", "--yes")
		assert.Equal(t, "1 1", done.Key("runs/suspended").String()+" "+done.Key("tokens/revoked").String())
		assert.Equal(t, []string{"suspended", "completed", "completed", "completed"}, w.listed("status", "--config", config))
		assert.Equal(t, 0, w.run("runs", "verify", "--config", config).code)
		show := w.run("runs", "show", hangs, "--config", config)
		assert.Contains(t, show.stdout+show.stderr, "run/restored")
		again := w.serve("--config", config)
		assert.Contains(t, w.run("user", "list", "--config", config).stdout, "ann")
		assert.NotContains(t, w.run("token", "list", "--config", config).stdout, "ann")
		again.stop()
		key, err := os.ReadFile(filepath.Join(w.dir, "copy", "secrets.key"))
		require.NoError(t, err)
		was, err := os.ReadFile(filepath.Join(w.dir, "var", "secrets.key"))
		require.NoError(t, err)
		assert.Equal(t, string(was), string(key))
	})

	t.Run("resume", func(t *testing.T) {
		config := w.elsewhere("moved")
		done := w.data("admin", "restore", folder, "--config", config, "--resume", "--yes")
		assert.Equal(t, "0 0", done.Key("runs/suspended").String()+" "+done.Key("tokens/revoked").String())
		assert.Equal(t, "open", w.listed("status", "--config", config)[0])
	})

	t.Run("open to others", func(t *testing.T) {
		config := w.elsewhere("open")
		require.NoError(t, os.Mkdir(filepath.Join(w.dir, "open"), 0o755))
		for _, how := range []string{"--dry-run", "--yes"} {
			refused := w.run("admin", "restore", folder, "--config", config, how)
			assert.Equal(t, 3, refused.code, refused.stderr)
			assert.Contains(t, refused.stderr, "invalid-request", how)
			assert.Contains(t, refused.stderr, "chmod 700 "+filepath.Join(w.dir, "open"), how)
		}
	})

	t.Run("damage", func(t *testing.T) {
		config := w.elsewhere("never")
		spoil := func(name string, change func(text []byte) []byte) {
			path := filepath.Join(w.dir, "offline", name)
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, change(append([]byte{}, text...)), 0o600))
			got := w.run("admin", "backup", "verify", "offline")
			assert.Equal(t, 1, got.code, "%s: %s%s", name, got.stdout, got.stderr)
			assert.Contains(t, got.stdout+got.stderr, "use another backup", name)
			assert.NotContains(t, got.stderr, "admin backup verify", "it has just been run")
			refused := w.run("admin", "restore", "offline", "--config", config, "--yes")
			assert.Equal(t, 1, refused.code, refused.stderr)
			assert.Contains(t, refused.stderr, "backup/invalid")
			assert.NoDirExists(t, filepath.Join(w.dir, "never"))
			require.NoError(t, os.WriteFile(path, text, 0o600))
		}
		flip := func(text []byte) []byte { text[len(text)/2] ^= 1; return text }
		cut := func(text []byte) []byte { return text[:len(text)/2] }
		for _, name := range []string{"MANIFEST", "data/ferment.db", "data/secrets.key"} {
			spoil(name, flip)
			spoil(name, cut)
		}
		for _, name := range []string{"data/more", "FORMAT", "more/file"} {
			w.write("offline/"+name, "")
			got := w.run("admin", "backup", "verify", "offline")
			assert.Equal(t, 1, got.code, got.stderr)
			assert.Contains(t, got.stdout, name+": it is not in the manifest")
			refused := w.run("admin", "restore", "offline", "--config", config, "--yes")
			assert.Equal(t, 1, refused.code, refused.stderr)
			assert.Contains(t, refused.stderr, " 1 difference\n")
			assert.Contains(t, refused.stderr, "\""+name+"\" it is not in the manifest\n")
			require.NoError(t, os.Remove(filepath.Join(w.dir, "offline", name)))
		}
		require.NoError(t, os.Symlink("offline", filepath.Join(w.dir, "link")))
		assert.Equal(t, 0, w.run("admin", "backup", "verify", "link").code)
		assert.Equal(t, 0, w.run("admin", "backup", "verify", "offline").code)
		assert.Equal(t, 3, w.run("admin", "backup", "verify", "absent").code)
		assert.Equal(t, 1, w.run("admin", "backup", "verify", "ferment.hcl").code)
	})
}

// hidden lists the files in a directory whose names begin with a dot.
func hidden(t *testing.T, dir string) []string {
	t.Helper()
	out, err := filepath.Glob(filepath.Join(dir, ".*"))
	require.NoError(t, err)
	return out
}

// OPS-007, JRN-060, CLI-005: the upkeep of the database by command is the same with a
// daemon and without one. A dry run says what would be done; what loses data needs a flag,
// and a daemon does not change the schema that it uses.
func TestDatabaseUpkeep(t *testing.T) {
	t.Parallel()
	w := recording(t)
	s := w.serve()
	require.Equal(t, 200, s.ask("mine/data", "{}").status)
	live := w.data("admin", "db-status")
	assert.Equal(t, "1", live.Key("runs").String())
	assert.Equal(t, live.Key("schema/known").String(), live.Key("schema").String())
	assert.Contains(t, w.run("admin", "db-status").stdout, "this program knows up to "+live.Key("schema").String())
	assert.Equal(t, "{:bytes 0 :dry-run? true :file-bytes 0 :files 0 :runs 0}", w.data("admin", "gc", "--dry-run").String())
	assert.Equal(t, 0, w.run("admin", "gc", "--yes").code)
	assert.Equal(t, 2, w.run("admin", "gc").code, "no terminal to ask on")
	back := w.data("admin", "rollback", "--dry-run")
	for _, args := range [][]string{{"migrate"}, {"rollback", "--accept-loss", "--yes"}} {
		refused := w.run(append([]string{"admin"}, args...)...)
		assert.Equal(t, 6, refused.code, refused.stderr)
		assert.Contains(t, refused.stderr, "ferment admin drain")
		assert.Contains(t, refused.stderr, "admin/conflict")
	}
	s.stop()

	w.write("var/blobs/aa/"+strings.Repeat("a", 64), "12345")
	assert.Equal(t, "{:bytes 0 :dry-run? true :file-bytes 5 :files 1 :runs 0}", w.data("admin", "gc", "--dry-run").String())
	assert.Contains(t, w.run("admin", "gc", "--yes").stdout, "1 file with 5 bytes that no run names: removed")
	still := w.data("admin", "db-status")
	for _, key := range []string{"database", "driver", "schema", "runs", "records", "last-run"} {
		assert.Equal(t, live.Key(key).String(), still.Key(key).String(), key)
	}
	assert.Equal(t, back.String(), w.data("admin", "rollback", "--dry-run").String())
	assert.Equal(t, 6, w.run("admin", "rollback").code, "data would be lost")
	done := w.run("admin", "rollback", "--to", "1", "--accept-loss", "--yes")
	require.Equal(t, 0, done.code, done.stderr)
	assert.Contains(t, done.stdout, "to 1; taken back: 0")
	assert.Equal(t, 2, w.run("admin", "rollback", "--to", "1", "--accept-loss", "--yes").code, "it is no lower version")
	older := w.data("admin", "db-status")
	assert.Equal(t, "1", older.Key("schema").String(), "the status is also that of a database that this program cannot use")
	assert.Equal(t, live.Key("schema/known").String(), older.Key("schema/known").String())
	assert.Contains(t, w.run("admin", "db-status").stdout, "ferment admin migrate")
	assert.Contains(t, w.run("runs", "list").stderr, "\"ferment admin db-status\" shows the versions")
	assert.Equal(t, 0, w.run("admin", "migrate").code)
	assert.Equal(t, "1", w.data("admin", "db-status").Key("runs").String())
}
