package cli

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/exit"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/files"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) diffCommand() *cobra.Command {
	var against string
	var noStart bool
	cmd := &cobra.Command{
		Use:   "diff [--against FILE]",
		Short: "show what a reload would do",
		Long: "diff compares the configuration with that of the running daemon of this data directory, or with the one\n" +
			"named by --against, and lists what a reload would do: values that change immediately, plugins that get a new\n" +
			"process beside the old one, and settings that need a restart of the host. It compares values, not their\n" +
			"notation, and changes nothing. Exit codes: 0 no difference, 1 differences or a configuration with errors,\n" +
			"3 no daemon to compare with, 6 a restart is needed.",
		Example: "  ferment diff --against ferment.hcl\n  ferment diff --config site --against site/ferment.hcl --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if against == "" {
				return c.diffRunning(cmd.Context())
			}
			return c.diff(cmd.Context(), against, noStart)
		},
	}
	cmd.Flags().StringVar(&against, "against", "",
		"configuration to compare with, a file or a directory, instead of that of the daemon")
	cmd.Flags().BoolVar(&noStart, "no-start", false,
		"with --against: start no plugin; those without a cached description stay unchecked")
	return cmd
}

// diffRunning prints a comparison with the running daemon. The daemon reads its own configuration,
// as for a reload.
func (c *command) diffRunning(ctx context.Context) error {
	there, err := c.order(ctx, actionOf("config-diff"))
	if err != nil {
		return err
	}
	if read, own := plain(there.Key("configuration")), c.configuration(); c.remote == nil && !sameFile(read, own) {
		c.printf("note: the daemon uses the configuration %s, not %s\n", c.relative(read), c.relative(own))
	}
	text, valid := plain(there.Key("text")), there.Key("valid?").Truthy()
	switch {
	case c.format != formatText:
		err = c.value(c.env.Stdout, there.Dissoc(edn.K("text"), edn.K("configuration")))
	case !valid:
		c.printf("%s\n", trimNewline(text))
	case !there.Key("differs?").Truthy():
		_, err = fmt.Fprintln(c.env.Stdout, "nothing differs")
	default:
		_, err = fmt.Fprintf(c.env.Stdout, "%s%s", text, stayText(there.Key("pids")))
	}
	switch {
	case err != nil:
		return err
	case there.Key("restart?").Truthy():
		return quietError{exit.Conflict}
	case !valid, there.Key("differs?").Truthy():
		return quietError{exit.Negative}
	}
	return nil
}

// stayText returns the processes that a reload would keep.
func stayText(pids edn.Value) string {
	var parts []string
	for name, list := range pids.Entries() {
		parts = append(parts, plain(name)+" "+strings.Join(plains(list), " "))
	}
	if len(parts) == 0 {
		return ""
	}
	return "processes that stay: " + strings.Join(parts, ", ") + "\n"
}

// configuration returns the file or directory that this command would read.
func (c *command) configuration() string {
	if c.config == "" {
		return files.Find(c.env.Dir)
	}
	return c.path(c.config)
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return a == b
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

func (c *command) diff(ctx context.Context, against string, noStart bool) error {
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return fmt.Errorf("make a key for the hashes of secrets: %w", err)
	}
	var both [2]*config.Config
	for i, path := range []string{against, c.config} {
		o := c.options()
		o.Config, o.Key, o.NoStart = path, key, noStart
		loaded, err := setup.Load(ctx, o)
		if err != nil {
			return err
		}
		if loaded.Generation == nil {
			return c.invalidConfig(&setup.InvalidConfigError{Config: loaded.Config})
		}
		both[i] = loaded.Config
	}
	d := view.Compare(both[0], both[1])
	if err := c.printDiff(d); err != nil {
		return err
	}
	switch {
	case d.Empty():
		return nil
	case len(d.Restart()) > 0:
		return quietError{exit.Conflict}
	}
	return quietError{exit.Negative}
}

// printDiff prints what a reload would do.
func (c *command) printDiff(d view.Diff) error {
	if c.format == formatText {
		text := d.Text()
		if d.Empty() {
			text = "nothing differs\n"
		}
		_, err := fmt.Fprint(c.env.Stdout, text)
		return err
	}
	return c.value(c.env.Stdout, daemon.DiffValue(d))
}
