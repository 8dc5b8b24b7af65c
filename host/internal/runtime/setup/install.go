package setup

import (
	"context"
	"errors"
	"os"
	"syscall"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/adapters/plugin/install"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// InstallWish selects what to install.
type InstallWish struct {
	Path    string // absolute path of a program or an archive
	Program string // path in the archive; empty: the only executable file
	// Name and Version, if both are set, identify the program. Otherwise the
	// program is started and described.
	Name, Version string
}

// Install installs a program in the plugin store: that of the data directory if there is a
// configuration, else that of the user. It does not approve the program; the lock file does. The
// errors are those of install.Store.Add, of the description, or an *EnvironmentError.
func Install(ctx context.Context, o Options, wish InstallWish) (install.Installed, error) {
	lookup := o.Env
	if lookup == nil {
		lookup = os.LookupEnv
	}
	dataDir := ""
	// Errors of the configuration are ignored, because it may refer to the program that is about to
	// be installed.
	if cfg, _ := config.Load(ctx, o.Config, config.Options{
		Dir:         o.Dir,
		Env:         o.Env,
		Profile:     o.Profile,
		HostVersion: o.Version,
	}); !cfg.Unreadable() {
		dataDir = cfg.Host.DataDir
	}
	identify := func(context.Context, string) (string, string, error) { return wish.Name, wish.Version, nil }
	if wish.Name == "" || wish.Version == "" {
		env, err := Prepare(o)
		if err != nil {
			return install.Installed{}, err
		}
		defer env.Close()
		identify = func(ctx context.Context, program string) (string, string, error) {
			d, err := env.identify(ctx, program)
			if errors.Is(err, syscall.ENOEXEC) {
				return "", "", contract.Errorf("input/invalid", "%s is not a program that this system can start",
					wish.Path).WithCause(contract.AsError(err)).
					WithHint("install a program or an archive with one; for a script, write its interpreter and its path in command")
			}
			if err != nil {
				return "", "", err
			}
			name, version := d.Name, d.Version
			if wish.Name != "" {
				name = wish.Name
			}
			if wish.Version != "" {
				version = wish.Version
			}
			return name, version, nil
		}
	}
	got, err := install.Open(install.Dirs(dataDir, lookup)...).Add(ctx,
		install.Source{Path: wish.Path, Program: wish.Program, Identify: identify})
	if err != nil {
		if contract.AsError(err).Type == "runtime/internal" && ctx.Err() == nil {
			return got, &EnvironmentError{"install a plugin", err}
		}
		return got, err
	}
	return got, nil
}

// identify returns the description of a program without a configuration.
func (e *Environment) identify(ctx context.Context, program string) (plugin.Described, error) {
	q := e.Describer.Ask(plugin.DefaultSettings("the new plugin", program))
	defer q.Close()
	return q.Describe(ctx, edn.Nil(), nil)
}
