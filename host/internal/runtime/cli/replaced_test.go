//go:build unix

package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// OPS-002: a second daemon is refused with 73 also if the lock file was removed, and operators
// reach the first one afterwards.
func TestRemovedLock(t *testing.T) {
	t.Parallel()
	w := answering(t, onDisk)
	s := w.serve()
	require.NoError(t, os.Remove(filepath.Join(w.dir, "var", "LOCK")))
	second := w.run("serve")
	assert.Equal(t, 73, second.code, second.stderr)
	assert.Equal(t, 0, w.run("status").code)
	drained := w.run("admin", "drain", "--yes")
	assert.Equal(t, 0, drained.code, drained.stderr)
	assert.Equal(t, 0, s.wait().code)
}

// JRN-004, JRN-005, RUN-010: a daemon whose database was removed or replaced acknowledges no run
// and begins no effect that must not be repeated. It ends with 74, and says once what was found.
func TestReplacedJournal(t *testing.T) {
	t.Parallel()
	copied := func(t *testing.T, path string) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path+".copy", text, 0o600))
		require.NoError(t, os.Rename(path+".copy", path))
	}
	for name, replace := range map[string]func(t *testing.T, dir string){
		"removed": func(t *testing.T, dir string) {
			for _, file := range []string{"ferment.db", "ferment.db-wal", "ferment.db-shm"} {
				require.NoError(t, os.Remove(filepath.Join(dir, file)))
			}
		},
		"replaced":       func(t *testing.T, dir string) { copied(t, filepath.Join(dir, "ferment.db")) },
		"log removed":    func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, "ferment.db-wal"))) },
		"directory gone": func(t *testing.T, dir string) { require.NoError(t, os.RemoveAll(dir)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "ferment.hcl", testProfile)
			file := w.counting(t, onDisk)
			s := w.serve()
			ask := func(n string) answer {
				body := envelopeOf("count/once", `{:n "`+n+`"}`, ":effects {:allowed #{:fs/write}}")
				return s.request(context.Background(), "POST", "/v1/act", body, "Idempotency-Key", n)
			}
			require.Equal(t, 200, ask("before").status)
			before := w.effects(t, file)
			require.Equal(t, 1, strings.Count(before, "once"), before)

			replace(t, filepath.Join(w.dir, "var"))
			for _, key := range []string{"before", "after"} {
				assert.NotEqual(t, 200, ask(key).status, "the daemon has no durable journal")
			}
			assert.Equal(t, before, w.effects(t, file))
			got := s.wait()
			assert.Equal(t, 74, got.code, got.stderr)
			assert.Equal(t, 1, strings.Count(got.stderr, "the journal cannot record: the daemon ends"), got.stderr)

			switch name {
			case "directory gone": // the next start is a first one
			case "removed":
				refused := w.run("serve")
				assert.Equal(t, 65, refused.code, refused.stderr)
				assert.Contains(t, refused.stderr, "ferment admin journal-repair")
				assert.Equal(t, 3, w.run("runs", "verify").code)
				assert.Equal(t, 3, w.run("admin", "journal-repair", "--dry-run").code)
				repaired := w.run("admin", "journal-repair", "--yes")
				assert.Equal(t, 0, repaired.code, repaired.stderr)
				w.serve().stop()
			default: // what was acknowledged is in the files that are left
				s = w.serve()
				assert.Equal(t, "true", ask("before").header.Get("Idempotency-Replayed"))
				assert.Equal(t, before, w.effects(t, file))
				s.stop()
			}
		})
	}
}
