package cli

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) devCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "develop a plugin: let the daemon use one that runs under a debugger",
	}
	cmd.AddCommand(
		&cobra.Command{
			Use:   "attach NAME FILE",
			Short: "use a manually started plugin instead of the one that the daemon started",
			Long: "attach is for a plugin under a debugger. Start it with FERMENT_ATTACH=FILE in its environment, such as\n" +
				"\"FERMENT_ATTACH=mine.attach dlv exec ./mine\"; it writes its address to FILE. The daemon then sends it the calls of the plugin block NAME, configures it from that\n" +
				"block, and applies no restarts, no timeouts and no sandbox. Each attach starts a new instance in the same\n" +
				"process. Only the profiles dev and test allow it.",
			Example: "  ferment dev attach text text.attach",
			Args:    cobra.ExactArgs(2),
			RunE: func(cmd *cobra.Command, args []string) error {
				file := args[1]
				if !filepath.IsAbs(file) {
					file = filepath.Join(c.env.Dir, file)
				}
				return c.orderPlugin(cmd.Context(),
					actionOf("plugin-attach", edn.K("plugin"), edn.Text(args[0]), edn.K("file"), edn.Text(file)),
					fmt.Sprintf("plugin %s: attached; no restarts, no timeouts and no sandbox until \"ferment dev detach %s\"", args[0], args[0]))
			},
		},
		&cobra.Command{
			Use:     "detach NAME",
			Short:   "return to the plugin process that the daemon starts",
			Example: "  ferment dev detach text",
			Args:    cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				return c.orderPlugin(cmd.Context(), actionOf("plugin-detach", edn.K("plugin"), edn.Text(args[0])),
					"plugin "+args[0]+": detached")
			},
		},
	)
	return cmd
}

// registerAttach adds --attach to a command.
func (c *command) registerAttach(cmd *cobra.Command) {
	cmd.Flags().StringToStringVar(&c.attached, "attach", nil,
		"use a plugin that was started with FERMENT_ATTACH=FILE, as NAME=FILE; may be repeated")
}

// warnAttached prints the restrictions of attached plugins.
func (c *command) warnAttached() {
	if len(c.attached) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(c.attached))
	c.printf("attached: %s; no restarts, no timeouts and no sandbox\n", strings.Join(names, ", "))
}
