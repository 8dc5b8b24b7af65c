package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/expression"
	"github.com/fermenthq/ferment/host/internal/runtime/config/view"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "show the configuration and the reference of its language",
	}
	cmd.AddCommand(c.configShowCommand(), c.configDocsCommand())
	return cmd
}

func (c *command) configShowCommand() *cobra.Command {
	var o view.ShowOptions
	var inputs, noStart, running bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "print the merged configuration",
		Long: "show prints the merged configuration as HCL, with references in place of secrets. With --flat it prints one\n" +
			"file that loads to the same values from the same directory.",
		Example: "  ferment config show --only plugin.chess --origins\n  ferment config show --defaults --profile prod\n  ferment config show --inputs\n  ferment config show --running --only plugin.chess",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if inputs && o != (view.ShowOptions{}) {
				return usagef("--inputs excludes other flags")
			}
			if running || c.remote != nil {
				if inputs || noStart || o.Flat {
					return usagef("--running combines only with --only, --defaults and --origins")
				}
				return c.showRunning(cmd.Context(), o)
			}
			options := c.options()
			options.NoStart = noStart
			loaded, err := c.load(cmd.Context(), options)
			if err != nil {
				return err
			}
			if inputs {
				return c.showInputs(loaded.Inputs)
			}
			return c.showConfig(loaded.Config, o)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.Defaults, "defaults", false, "also print defaults")
	flags.BoolVar(&o.Origins, "origins", false, "print the origin of each value")
	flags.BoolVar(&o.Flat, "flat", false, "print one file that loads to the same values")
	flags.StringVar(&o.Only, "only", "", "print only this block or attribute, such as plugin.chess")
	flags.BoolVar(&running, "running", false, "print the configuration of the running daemon instead of the files")
	flags.BoolVar(&inputs, "inputs", false,
		"list the environment variables and files that expressions read, with hashes of their values")
	flags.BoolVar(&noStart, "no-start", false, "start no plugin; those without a cached description stay unchecked")
	return cmd
}

// showRunning prints the configuration of the daemon.
func (c *command) showRunning(ctx context.Context, o view.ShowOptions) error {
	query := actionOf("config-show", edn.K("defaults?"), edn.Bool(o.Defaults), edn.K("origins?"), edn.Bool(o.Origins),
		edn.K("text?"), edn.Bool(c.format == formatText))
	if o.Only != "" {
		query = query.AssocKey("only", edn.Text(o.Only))
	}
	result, err := c.order(ctx, query)
	if err != nil {
		return err
	}
	if c.format != formatText {
		return c.value(c.env.Stdout, result)
	}
	text, _ := result.Key("text").AsString()
	_, err = fmt.Fprint(c.env.Stdout, text)
	return err
}

func (c *command) showConfig(cfg *config.Config, o view.ShowOptions) error {
	if c.format != formatText {
		v, err := view.ShowValue(cfg, o)
		if err != nil {
			return notInConfig(err)
		}
		return c.value(c.env.Stdout, edn.MustMap(
			edn.K("profile"), edn.Text(cfg.Profile),
			edn.K("hash"), edn.Text(cfg.Hash),
			edn.K("config"), v,
		))
	}
	text, err := view.Show(cfg, o)
	if err != nil {
		return notInConfig(err)
	}
	_, err = fmt.Fprint(c.env.Stdout, text)
	return err
}

// notInConfig returns the typed error for an unknown path.
func notInConfig(err error) error {
	var unknown *view.UnknownPathError
	if !errors.As(err, &unknown) {
		return err
	}
	e := contract.Errorf("not-found", "%s", unknown).WithHint("names are joined by dots, such as plugin.chess.restart")
	return e.DidYouMean(unknown.Nearest)
}

func (c *command) showInputs(inputs []expression.Input) error {
	if c.format != formatText {
		all := make([]edn.Value, len(inputs))
		for i, in := range inputs {
			all[i] = edn.MustMap(
				edn.K("kind"), edn.K(in.Kind),
				edn.K("name"), edn.Text(in.Name),
				edn.K("hash"), edn.Text(in.Hash),
			)
		}
		return c.value(c.env.Stdout, edn.MustMap(edn.K("inputs"), edn.Vector(all...)))
	}
	rows := make([][]string, len(inputs))
	for i, in := range inputs {
		hash := in.Hash
		if hash == "" {
			hash = "unset"
		}
		rows[i] = []string{in.Kind, in.Name, hash}
	}
	return display.Table(c.env.Stdout, []string{"kind", "name", "hash of the value"}, rows)
}

func (c *command) configDocsCommand() *cobra.Command {
	var plugin string
	cmd := &cobra.Command{
		Use:   "docs [BLOCK | limits]",
		Short: "print the reference of the configuration language",
		Long: "docs prints every block and attribute with its type, range, default and reload behaviour, from the table that\n" +
			"decodes the files; or one block, the limits, or the config block of a plugin.",
		Example: "  ferment config docs plugin.restart\n  ferment config docs limits\n  ferment config docs --plugin chess",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if plugin != "" && len(args) > 0 {
				return usagef("docs takes a block or --plugin, not both")
			}
			switch {
			case plugin != "":
				loaded, err := c.load(cmd.Context(), c.options())
				if err != nil {
					return err
				}
				text, form, err := view.PluginReference(loaded.Config, plugin)
				return c.docs(text, form, err)
			case len(args) == 1 && args[0] == "limits":
				return c.docs(view.LimitsText(), view.LimitsValue(), nil)
			}
			block := strings.Join(args, "")
			text, err := view.Reference(block)
			if err != nil {
				return c.docs("", edn.Nil(), err)
			}
			form, err := view.ReferenceValue(block)
			return c.docs(text, form, err)
		},
	}
	cmd.Flags().StringVar(&plugin, "plugin", "", "print the reference of the config block of this plugin")
	return cmd
}

func (c *command) docs(text string, form edn.Value, err error) error {
	if err != nil {
		return notInConfig(err)
	}
	if c.format != formatText {
		return c.value(c.env.Stdout, edn.MustMap(edn.K("docs"), form))
	}
	_, err = fmt.Fprint(c.env.Stdout, strings.TrimRight(text, "\n")+"\n")
	return err
}
