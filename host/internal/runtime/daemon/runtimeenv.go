package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/adapters/plugin/rundir"
	"github.com/fermenthq/ferment/sdk/launch"
	"github.com/fermenthq/ferment/sdk/wire"
)

// runtimeEnv is the environment in which plugins start: the private directory
// of their sockets, the reaper that outlives this process, and the cache of
// descriptions.
type runtimeEnv struct {
	runtime   *rundir.Dir
	reaper    *launch.Reaper
	host      wire.HostInfo
	describer *plugin.Describer
}

// prepareRuntimeEnv creates the environment and removes what killed hosts left
// behind.
func prepareRuntimeEnv(o Options) (*runtimeEnv, error) {
	base := rundir.Base(os.Getenv("XDG_RUNTIME_DIR"), os.Getuid())
	if _, err := rundir.Sweep(base); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &EnvironmentError{"sweep the runtime directory", err}
	}
	dir, err := rundir.Open(base)
	if err != nil {
		return nil, &EnvironmentError{"open the runtime directory", err}
	}
	reaper := launch.NewReaper(dir.Path())
	e := &runtimeEnv{runtime: dir, reaper: reaper,
		host: wire.HostInfo{Version: o.Version, Features: wire.HostFeatures()}}
	e.describer = plugin.NewDescriber(cacheDir(), dir, reaper, e.host)
	return e, nil
}

// close releases the environment of a host whose processes have ended. The
// directory is closed first, because the reaper waits for its lock.
func (e *runtimeEnv) close() {
	_ = e.runtime.Close()
	_ = e.reaper.Close()
}

// cacheDir returns the directory of cached plugin descriptions, which are
// needed before the data directory is known. Empty means in memory only.
func cacheDir() string {
	base, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(base, "ferment", "plugins", "describe")
}
