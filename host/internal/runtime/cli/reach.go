package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/exit"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/sdk/client"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// localFlag adds --local to a command.
func localFlag(cmd *cobra.Command, local *bool) {
	cmd.Flags().BoolVar(local, "local", false, "work in this process, even if a daemon serves the data directory")
}

// place returns the data directory of the configuration and the socket of its daemon. Plugins are
// not read, so errors elsewhere in the configuration have no effect.
func (c *command) place(ctx context.Context) (socket, dataDir string) {
	cfg := c.configured(ctx)
	return cfg.HTTP.AdminSocket, cfg.Host.DataDir
}

// configured returns the configuration as far as it can be read. It is read once per command. Safe
// for concurrent use.
func (c *command) configured(ctx context.Context) *config.Config {
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.hostOnly != nil {
		return c.hostOnly
	}
	o := c.options()
	cfg, _ := config.Load(ctx, o.Config, config.Options{
		Dir:         o.Dir,
		Env:         o.Env,
		Profile:     o.Profile,
		HostVersion: o.Version,
		HostOnly:    true,
	})
	if ctx.Err() == nil {
		c.hostOnly = cfg
	}
	return cfg
}

// reach connects to the daemon of --server, otherwise to that of the data directory; nil if none
// runs.
func (c *command) reach(ctx context.Context) (*client.Client, error) {
	if c.remote != nil {
		return c.remote, nil
	}
	socket, dataDir := c.place(ctx)
	if socket == "" {
		return nil, nil
	}
	there, err := client.Dial(ctx, socket, daemon.AdminTokenFile(dataDir))
	if errors.Is(err, client.ErrNoDaemon) {
		return nil, nil
	}
	return there, err
}

// Time limits for a daemon that has the data directory and does not answer.
const (
	awaitDaemon = time.Minute
	askDaemon   = 100 * time.Millisecond
)

// reachOrEnd works like reach. If a daemon has the data directory but does not answer, because it
// is starting or stopping, reachOrEnd waits until it answers or ends: an act that it interrupted
// would otherwise be executed twice.
func (c *command) reachOrEnd(ctx context.Context) (*client.Client, error) {
	_, dataDir := c.place(ctx)
	told, until := false, time.Now().Add(awaitDaemon)
	for {
		there, err := c.reach(ctx)
		if there != nil || err != nil || dataDir == "" {
			return there, err
		}
		held := daemon.Held(dataDir)
		switch {
		case held == nil:
			if told {
				c.printf("the daemon has ended; this process executes the call, and no run is recorded\n")
			}
			return nil, nil
		case time.Now().After(until):
			return nil, contract.Errorf("runtime/not-ready", "%s, which does not answer on its admin socket", held).
				WithHint("wait until it is up or has ended, or add --local")
		case !told:
			told = true
			c.printf("%s; waiting until it answers or ends\n", held)
		}
		select {
		case <-time.After(askDaemon):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// order executes an admin action. The error reports a missing daemon.
func (c *command) order(ctx context.Context, action edn.Value) (edn.Value, error) {
	return c.orderOnce(ctx, "", action)
}

// orderOnce works like order with an idempotency key, if that is not empty.
func (c *command) orderOnce(ctx context.Context, key string, action edn.Value) (edn.Value, error) {
	there, err := c.reach(ctx)
	if err != nil {
		return edn.Nil(), err
	}
	if there == nil {
		return edn.Nil(), c.noDaemon(ctx)
	}
	return there.AdminOnce(ctx, key, action)
}

// noDaemon returns the error for a missing daemon, or for a configuration
// that does not determine the data directory.
func (c *command) noDaemon(ctx context.Context) error {
	cfg := c.configured(ctx)
	if cfg.Host.DataDir != "" {
		hint := "start one with \"ferment serve\""
		if others := daemonsBelow(cfg.Root); len(others) > 0 {
			hint = "a daemon serves " + strings.Join(others, ", ") +
				": set data_dir to it again to reach it, or stop it and start one with \"ferment serve\""
		}
		return contract.Errorf("runtime/not-ready", "no daemon serves the data directory %s", cfg.Host.DataDir).WithHint(hint)
	}
	if err := c.diagnostics(c.env.Stderr, cfg.Report(diag.DefaultMaxShown)); err != nil {
		return err
	}
	return quietError{exit.Environment}
}

// daemonsBelow returns the data directories below dir whose admin socket is open, such as that
// of a daemon that was started before data_dir was changed.
func daemonsBelow(dir string) (found []string) {
	sockets, err := os.ReadFile("/proc/net/unix") // the path is the last column
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(sockets)) {
		_, path, ok := strings.Cut(line, " "+dir+"/")
		data, admin := strings.CutSuffix(strings.TrimSpace(path), "/run/admin.sock")
		if data = filepath.Join(dir, data); ok && admin && !slices.Contains(found, data) {
			found = append(found, data)
		}
	}
	return found
}

// actionOf returns the body of an admin action.
func actionOf(name string, keysAndValues ...edn.Value) edn.Value {
	return edn.MustMap(append([]edn.Value{edn.K("action"), edn.K(name)}, keysAndValues...)...)
}
