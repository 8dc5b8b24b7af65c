package cli

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) diffCommand() *cobra.Command {
	var against string
	var noStart bool
	cmd := &cobra.Command{
		Use:   "diff --against FILE",
		Short: "say what a reload from another configuration would do",
		Long: "diff compares the values of two configurations, not how they are written, and lists what a host that\n" +
			"runs under the one named by --against would do to take over this one: values that change, plugins that\n" +
			"get a new process, and what needs a restart. It ends with 0 if nothing differs, 1 if something does, 6\n" +
			"if a restart is needed.",
		Example: "  ferment diff --against ferment.hcl\n  ferment diff --config site --against site/ferment.hcl --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if against == "" {
				return usagef("diff needs the configuration to compare with: --against FILE")
			}
			return c.diff(cmd.Context(), against, noStart)
		},
	}
	cmd.Flags().StringVar(&against, "against", "", "configuration to compare with, a file or a directory")
	cmd.Flags().BoolVar(&noStart, "no-start", false, "start no plugin; those that were never seen stay unchecked")
	return cmd
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
		loaded, err := daemon.Load(ctx, o)
		if err != nil {
			return err
		}
		if loaded.Generation == nil {
			return c.invalidConfig(&daemon.InvalidConfigError{Config: loaded.Config})
		}
		both[i] = loaded.Config
	}
	d := config.Compare(both[0], both[1])
	if err := c.printDiff(d); err != nil {
		return err
	}
	switch {
	case d.Empty():
		return nil
	case len(d.Restart()) > 0:
		return quietError{contract.ExitConflict}
	}
	return quietError{contract.ExitNegative}
}

// printDiff prints what a reload would do.
func (c *command) printDiff(d config.Diff) error {
	if c.format == formatText {
		text := d.Text()
		if d.Empty() {
			text = "nothing differs\n"
		}
		_, err := fmt.Fprint(c.env.Stdout, text)
		return err
	}
	return c.value(c.env.Stdout, edn.MustMap(
		edn.K("valid?"), edn.Bool(true),
		edn.K("restart?"), edn.Bool(len(d.Restart()) > 0),
		edn.K("changes"), d.Value(),
		edn.K("plugins"), d.Plugins.Value(),
	))
}
