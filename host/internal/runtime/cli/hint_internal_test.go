package cli

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// ERR-005, CLI-002: an error of the environment has a matching hint, however
// deep its cause is.
func TestEnvironmentHint(t *testing.T) {
	disk := `"df" shows whether the disk is full or read-only`
	for cause, want := range map[error]string{
		syscall.ENOENT: "name a directory whose parent exists",
		syscall.EACCES: "writable for this user",
		syscall.EISDIR: "name a file, not a directory",
		syscall.EROFS:  disk,
		syscall.ENOSPC: disk,
		syscall.EDQUOT: disk,
		syscall.EIO:    disk,
		syscall.EINVAL: `"ferment validate"`,
	} {
		err := &setup.EnvironmentError{Op: "supervise plugins", Err: fmt.Errorf("runtime directory: %w", &fs.PathError{Op: "mkdir", Path: "var/work", Err: cause})}
		assert.Contains(t, environmentHint(err), want, cause)
	}
	read, written := &fileError{err: syscall.ENOENT}, &fileError{err: syscall.ENOENT, written: true}
	assert.NotEqual(t, environmentHint(read), environmentHint(written), "a file to be written need not exist")
	below := &fileError{err: syscall.ENOTDIR, written: true}
	assert.Equal(t, environmentHint(written), environmentHint(below), "below a file")
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
}

// CLI-002: a failed write of the output is an error of the environment,
// without the hint to search the log of a run.
func TestOutputThatCannotBeWritten(t *testing.T) {
	var stderr bytes.Buffer
	code := Main(Env{Args: []string{"version"}, Stdin: &stderr, Stdout: fullDisk{}, Stderr: &stderr, Version: "test", Getenv: os.LookupEnv, Dir: t.TempDir()})
	assert.Equal(t, 3, code)
	assert.Contains(t, stderr.String(), "error: write /dev/stdout: no space left on device\n")
	assert.Contains(t, strings.Join(strings.Fields(stderr.String()), " "), diskHint)
	assert.NotContains(t, stderr.String(), "the id of the run")
}

// CLI-002: the hint for the deadline of a run names the flag, also if it was not given;
// that for the deadline of a node names its key.
func TestDeadlineHint(t *testing.T) {
	for typ, want := range map[string]string{"queue/deadline-exceeded": "--deadline", "timeout/hard": ":deadline-ms"} {
		var stderr bytes.Buffer
		c := &command{env: Env{Stderr: &stderr}, format: formatText}
		assert.Error(t, c.answer(edn.Nil(), contract.Errorf(typ, "late"), performance{flags: &callFlags{}}, nil))
		for _, name := range []string{":deadline-ms", "--deadline"} {
			assert.Equal(t, name == want, bytes.Contains(stderr.Bytes(), []byte(name)), stderr.String())
		}
	}
}
