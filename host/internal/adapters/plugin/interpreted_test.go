//go:build linux

package plugin

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/launch"
)

// interpreted returns the output of a confined interpreter in a working
// directory of which only some files are listed.
func interpreted(t *testing.T, dir string, files []string, command ...string) string {
	t.Helper()
	if confine.Probe().Best() != confine.Strict {
		t.Skip("this machine cannot hold level strict")
	}
	s := DefaultSettings("p", command...)
	s.Workdir = dir
	s.Isolation.ReadPaths = []string{filepath.Join(dir, "node_modules")}
	for _, name := range files {
		s.Files = append(s.Files, filepath.Join(dir, name))
	}
	scratch := t.TempDir()
	policy := s.policy(contract.Description{}, hostDirs{scratch: scratch})
	p, err := launch.Start(launch.Command{
		Path: command[0], Args: command[1:], Dir: dir, Policy: &policy,
		Env: launch.Environment(withDefaults(nil, nil, s.defaults(scratch)), nil, os.LookupEnv, nil),
	})
	require.NoError(t, err)
	out, err := io.ReadAll(p.Stdout())
	require.NoError(t, err)
	<-p.Settled()
	return string(out)
}

// LOCK-004: an interpreter can read and find the listed files, but no other
// file beside them.
func TestInterpreterReadsWhatIsListed(t *testing.T) {
	dir := t.TempDir()
	script := `for f in *; do echo "$f"; done; read x < listed && echo "$x"; read x < beside && echo "$x"; read x < below/cache && echo "$x"`
	require.NoError(t, os.Mkdir(filepath.Join(dir, "below"), 0o700))
	for name, text := range map[string]string{"main.sh": script + "\n", "listed": "approved\n", "beside": "planted\n", "below/cache": "planted\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	assert.Equal(t, "below\nbeside\nlisted\nmain.sh\napproved\n", interpreted(t, dir, []string{"main.sh", "listed"}, "/bin/sh", "main.sh"))
}
