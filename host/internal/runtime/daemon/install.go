package daemon

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

// InstallWish says what to install.
type InstallWish struct {
	Path    string // absolute; a program or an archive
	Program string // in the archive; empty: the only one
	// Name and Version, if both are given, are what it is called. Otherwise the
	// program is started and asked.
	Name, Version string
}

// Install puts a program into the store: that of the data directory if there is
// a configuration, else that of the user. It is not approved by that: the lock
// file is.
func Install(ctx context.Context, o Options, wish InstallWish) (install.Installed, error) {
	env := o.Env
	if env == nil {
		env = os.LookupEnv
	}
	dataDir := ""
	// The store is needed before the configuration can be right: it may name
	// what is about to be installed.
	if cfg, _ := config.Load(ctx, o.Config, config.Options{Dir: o.Dir, Env: o.Env, Profile: o.Profile, HostVersion: o.Version}); !cfg.Unreadable() {
		dataDir = cfg.Host.DataDir
	}
	identify := func(context.Context, string) (string, string, error) { return wish.Name, wish.Version, nil }
	if wish.Name == "" || wish.Version == "" {
		ground, err := prepareGround(o)
		if err != nil {
			return install.Installed{}, err
		}
		defer ground.close()
		identify = func(ctx context.Context, program string) (string, string, error) {
			d, err := ground.identify(ctx, program)
			if errors.Is(err, syscall.ENOEXEC) {
				return "", "", contract.Errorf("input/invalid", "%s is no program that this system can start", wish.Path).WithCause(contract.AsError(err)).
					WithHint("install takes a program or an archive with one; a script stands in command behind its interpreter, and the lock file has its hash")
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
	got, err := install.Open(install.Dirs(dataDir, env)...).Add(ctx, install.Source{Path: wish.Path, Program: wish.Program, Identify: identify})
	if err != nil {
		if contract.AsError(err).Type == "runtime/internal" && ctx.Err() == nil {
			return got, &EnvironmentError{"install a plugin", err}
		}
		return got, err
	}
	return got, nil
}

// identify asks a program what it is, without configuration.
func (g *ground) identify(ctx context.Context, program string) (plugin.Described, error) {
	q := g.describer.Ask(plugin.DefaultSettings("the new plugin", program))
	defer q.Close()
	return q.Describe(ctx, edn.Nil(), nil)
}
