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

// CLI-006: every command has a manual page with its flags and examples, which is the same
// each time. Where groff is installed, it formats all of them without a warning.
func TestManualPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.Equal(t, 0, w.run("manual", "--dir", "man1").code)
	require.Equal(t, 0, w.run("manual", "--dir", "again").code)
	pages, err := filepath.Glob(filepath.Join(w.dir, "man1", "*.1"))
	require.NoError(t, err)
	require.Greater(t, len(pages), 60)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		again, err := os.ReadFile(filepath.Join(w.dir, "again", filepath.Base(page)))
		require.NoError(t, err)
		assert.Equal(t, string(text), string(again))
		for line := range strings.Lines(string(text)) {
			if macro, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(line, ".") {
				assert.Contains(t, []string{".TH", ".SH", ".B", ".BR", ".TP", ".PP", ".nf", ".fi", ".br"}, macro, "%s: %s", page, line)
			}
		}
	}
	one := w.run("manual", "admin", "backup")
	assert.Equal(t, 0, one.code)
	for _, part := range []string{`.TH FERMENT\-ADMIN\-BACKUP 1`, `ferment admin backup monday.tar`, `.BR ferment\-admin\-backup\-verify (1)`} {
		assert.Contains(t, one.stdout, part)
	}
	assert.Contains(t, w.run("manual", "admin", "restore").stdout, `.B \-\-revoke\-tokens`)
	assert.Contains(t, w.run("manual").stdout, ".SH EXIT STATUS")
	assert.Equal(t, 2, w.run("manual", "nothing").code)
	assert.Equal(t, 2, w.run("manual", "--dir", "x", "admin").code)
	if groff, err := exec.LookPath("groff"); err == nil {
		out, err := exec.Command(groff, append([]string{"-man", "-ww", "-z", "-Tutf8"}, pages...)...).CombinedOutput()
		assert.NoError(t, err)
		assert.Empty(t, string(out))
	}
}
