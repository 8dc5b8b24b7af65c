package cli

import (
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
)

// ERR-005, CLI-002: what is missing around the host has a next step that fits it, however
// deep the cause lies.
func TestEnvironmentHint(t *testing.T) {
	disk := `"df" shows whether the disk is full or read-only`
	for cause, want := range map[error]string{
		syscall.ENOENT: "name a file that exists",
		syscall.EACCES: "check the owner and the mode",
		syscall.EISDIR: "name a file, not a directory",
		syscall.EROFS:  disk,
		syscall.ENOSPC: disk,
		syscall.EDQUOT: disk,
		syscall.EIO:    disk,
		syscall.EINVAL: `"ferment validate"`,
	} {
		err := &daemon.EnvironmentError{Op: "supervise plugins", Err: fmt.Errorf("runtime directory: %w", &fs.PathError{Op: "mkdir", Path: "var/work", Err: cause})}
		assert.Contains(t, environmentHint(err), want, cause)
	}
}
