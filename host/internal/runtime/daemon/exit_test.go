package daemon_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
)

// The exit codes of section 9 that a test cannot provoke with a real daemon;
// the process tests cover the others.
func TestExitCode(t *testing.T) {
	wrapped := func(err error) error {
		return fmt.Errorf("data directory: %w", &fs.PathError{Op: "write", Path: "/var/lib/ferment/FORMAT", Err: err})
	}
	for name, tc := range map[string]struct {
		err  error
		code int
	}{
		"clean":                 {nil, 0},
		"disk full":             {wrapped(syscall.ENOSPC), daemon.ExitIO},
		"quota":                 {wrapped(syscall.EDQUOT), daemon.ExitIO},
		"read-only":             {&setup.EnvironmentError{Op: "open the runtime directory", Err: wrapped(syscall.EROFS)}, daemon.ExitIO},
		"broken":                {wrapped(syscall.EIO), daemon.ExitIO},
		"a limit":               {wrapped(syscall.EFBIG), daemon.ExitIO},
		"no permission":         {wrapped(syscall.EACCES), daemon.ExitPermission},
		"not allowed":           {wrapped(os.ErrPermission), daemon.ExitPermission},
		"no address":            {&daemon.UnavailableError{Err: &net.DNSError{IsNotFound: true}}, daemon.ExitUnavailable},
		"a low port":            {&daemon.UnavailableError{Err: wrapped(syscall.EACCES)}, daemon.ExitPermission},
		"another with its id":   {fmt.Errorf("write: %w", store.ErrFenced), daemon.ExitLocked},
		"a network disk":        {fmt.Errorf("store: %w", &store.NetworkError{FileSystem: "nfs4"}), daemon.ExitConfig},
		"an unsafe server":      {&store.SettingError{Setting: "fsync"}, daemon.ExitConfig},
		"an unreachable server": {&store.UnreachableError{Err: syscall.ECONNREFUSED}, daemon.ExitUnavailable},
		"insecure":              {contract.Errorf("http/insecure-listener", "open"), daemon.ExitConfig},
		"anything else":         {errors.New("what"), daemon.ExitInternal},
	} {
		assert.Equal(t, tc.code, daemon.ExitCode(tc.err), name)
	}
}
