//go:build unix

package cli

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/google/renameio/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// CLI-003: a result replaces a regular file, also at the end of links. A pipe or a descriptor gets
// the content and stays what it is; a directory is refused.
func TestOutFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.Mkdir(at("sub"), 0o755))
	require.NoError(t, os.WriteFile(at("sub/old"), []byte("old"), 0o600))
	require.NoError(t, os.Symlink("sub/old", at("link")))
	require.NoError(t, os.Symlink(at("link"), at("chain")))
	require.NoError(t, os.Symlink("sub/later", at("dangling")))
	require.NoError(t, os.Symlink("loop", at("loop")))
	require.NoError(t, syscall.Mkfifo(at("pipe"), 0o600))
	require.NoError(t, os.Symlink("pipe", at("piped")))
	require.NoError(t, os.Symlink("/dev/null", at("null")))
	var stdout bytes.Buffer
	c := &command{env: Env{Stdout: &stdout, Dir: dir}}

	files := map[string]string{"new": "new", "sub/old": "sub/old", "chain": "sub/old", "dangling": "sub/later"}
	for name, file := range files {
		require.NoError(t, c.writeOut(name, []byte(name)))
		text, err := os.ReadFile(at(file))
		require.NoError(t, err)
		assert.Equal(t, name, string(text))
	}
	for _, link := range []string{"link", "chain", "dangling"} {
		info, err := os.Lstat(at(link))
		require.NoError(t, err)
		assert.NotZero(t, info.Mode()&os.ModeSymlink, link)
	}

	for _, name := range []string{"pipe", "piped"} {
		got := make(chan string, 1)
		go func() {
			f, err := os.Open(at("pipe"))
			if err != nil {
				got <- err.Error()
				return
			}
			defer func() { _ = f.Close() }()
			text, _ := io.ReadAll(f)
			got <- string(text)
		}()
		require.NoError(t, c.writeOut(name, []byte(name)))
		assert.Equal(t, name, <-got)
		info, err := os.Lstat(at("pipe"))
		require.NoError(t, err)
		assert.NotZero(t, info.Mode()&os.ModeNamedPipe)
	}
	require.NoError(t, c.writeOut("null", []byte("x")))

	read, write, err := os.Pipe()
	require.NoError(t, err)
	if fd := filepath.Join("/proc/self/fd", strconv.Itoa(int(write.Fd()))); runtime.GOOS == "linux" {
		require.NoError(t, os.Symlink(fd, at("descriptor")))
		require.NoError(t, c.writeOut("descriptor", []byte("x")))
		require.NoError(t, write.Close())
		text, err := io.ReadAll(read)
		require.NoError(t, err)
		assert.Equal(t, "x", string(text))
	}
	require.NoError(t, read.Close())

	require.NoError(t, c.writeOut("-", []byte("out")))
	assert.Equal(t, "out", stdout.String())
	assert.NoFileExists(t, at("-"))

	refused := map[string]error{"sub": syscall.EISDIR, "loop": syscall.ELOOP, "none/file": os.ErrNotExist}
	for name, want := range refused {
		err := c.writeOut(name, []byte("x"))
		require.ErrorIs(t, err, want, name)
		var file *fileError
		assert.True(t, errors.As(err, &file) && file.written, name)
	}

	f, err := c.createOut("sub/old", renameio.WithPermissions(0o644))
	require.NoError(t, err)
	_, err = f.Write([]byte("half"))
	require.NoError(t, err)
	f.Close()
	text, err := os.ReadFile(at("sub/old"))
	require.NoError(t, err)
	assert.NotContains(t, string(text), "half", "a file that is not complete replaces none")
}
