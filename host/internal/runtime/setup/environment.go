package setup

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

// Environment holds the resources that plugins need to start: the private directory of their
// sockets, the reaper process, which outlives this process, and the cache of descriptions.
type Environment struct {
	Runtime   *rundir.Dir
	Reaper    *launch.Reaper
	Host      wire.HostInfo
	Describer *plugin.Describer
}

// Prepare creates the environment and deletes the runtime directories of hosts that were killed.
// The error is an *EnvironmentError. The caller must close the environment.
func Prepare(o Options) (*Environment, error) {
	base := rundir.Base(os.Getenv("XDG_RUNTIME_DIR"), os.Getuid())
	if _, err := rundir.Sweep(base); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &EnvironmentError{"sweep the runtime directory", err}
	}
	dir, err := rundir.Open(base)
	if err != nil {
		return nil, &EnvironmentError{"open the runtime directory", err}
	}
	reaper := launch.NewReaper(dir.Path())
	e := &Environment{Runtime: dir, Reaper: reaper,
		Host: wire.HostInfo{Version: o.Version, Features: wire.HostFeatures()}}
	e.Describer = plugin.NewDescriber(cacheDir(), dir, reaper, e.Host)
	return e, nil
}

// Close releases the environment. All plugin processes must have ended. The directory is closed
// first, because the reaper waits for its lock.
func (e *Environment) Close() {
	_ = e.Runtime.Close()
	_ = e.Reaper.Close()
}

// WithoutCache returns a copy of the environment whose describer ignores the file cache. It shares
// all other resources, so only the original must be closed.
func (e *Environment) WithoutCache() *Environment {
	fresh := *e
	fresh.Describer = plugin.NewDescriber(cacheDir(), e.Runtime, e.Reaper, e.Host)
	fresh.Describer.Distrust()
	return &fresh
}

// cacheDir returns the directory of cached plugin descriptions, which are needed before the data
// directory is known. Empty: they are cached in memory only.
func cacheDir() string {
	base, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(base, "ferment", "plugins", "describe")
}
