package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) levelCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "log-level [[MODULE=]LEVEL]",
		Short: "show the levels of the daemon's log, or change one until a reload changes them",
		Long: "log-level sets the lowest level of log lines that the daemon writes, of one part of the host or of all parts\n" +
			"without a level of their own. The change lasts until the daemon ends or a reload changes the block telemetry.\n" +
			"Modules: " + strings.Join(language.LogModules(), ", ") + ". Levels: " + strings.Join(language.LogLevels(), ", ") + ".",
		Example: "  ferment admin log-level\n  ferment admin log-level plugin=debug\n  ferment admin log-level warn --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			action := actionOf("log-level")
			if len(args) == 1 {
				module, level, ok := strings.Cut(args[0], "=")
				if !ok {
					module, level = "", args[0]
				}
				if ok && !slices.Contains(language.LogModules(), module) {
					return usagef("log-level %s: expected one of %s before \"=\"", args[0], strings.Join(language.LogModules(), ", "))
				}
				if !slices.Contains(language.LogLevels(), level) {
					return usagef("log-level %s: expected one of %s", args[0], strings.Join(language.LogLevels(), ", "))
				}
				action = action.AssocKey("level", edn.K(level))
				if ok {
					action = action.AssocKey("module", edn.K(module))
				}
			}
			result, err := c.order(cmd.Context(), action)
			if err != nil {
				return err
			}
			if c.format != formatText {
				return c.value(c.env.Stdout, result)
			}
			return c.levelsText(result)
		},
	}
}

func (c *command) levelsText(v edn.Value) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%-10s  %s\n", "all", plain(v.Key("level")))
	for module, level := range v.Key("levels").Entries() {
		fmt.Fprintf(&b, "%-10s  %s\n", plain(module), plain(level))
	}
	_, err := io.WriteString(c.env.Stdout, b.String())
	return err
}
