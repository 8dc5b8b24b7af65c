package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) pluginCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugin",
		Short: "look at the plugins of the configuration",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usagef("plugin needs a verb: list or inspect")
		},
	}
	cmd.AddCommand(
		&cobra.Command{
			Use:     "list",
			Short:   "list the plugins with what they provide",
			Example: "  ferment plugin list\n  ferment plugin list --edn",
			Args:    cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				loaded, err := c.load(cmd.Context(), false)
				if err != nil {
					return err
				}
				return c.listPlugins(loaded)
			},
		},
		&cobra.Command{
			Use:     "inspect NAME",
			Short:   "show one plugin: program, capabilities, configuration, needs",
			Example: "  ferment plugin inspect chess\n  ferment plugin inspect sat --json",
			Args:    cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				loaded, err := c.load(cmd.Context(), false)
				if err != nil {
					return err
				}
				return c.inspectPlugin(loaded, args[0])
			},
		},
	)
	return cmd
}

// condition says in a word what the configuration makes of a plugin.
func condition(p config.Plugin) string {
	switch {
	case !p.Enabled:
		return "disabled"
	case p.Binary == "":
		return "missing"
	case !p.Described:
		return "unchecked"
	case p.Optional:
		return "optional"
	}
	return "required"
}

// provided lists the capabilities of a plugin under the ids that plans use.
func provided(loaded *daemon.Loaded, name string) []string {
	var ids []string
	reg := loaded.Generation.Registry
	for _, id := range reg.Capabilities() {
		if entry, ok := reg.Capability(id); ok && entry.Plugin == name {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (c *command) listPlugins(loaded *daemon.Loaded) error {
	if c.format != formatText {
		all := make([]edn.Value, len(loaded.Plugins))
		for i, p := range loaded.Plugins {
			all[i] = edn.MustMap(
				edn.K("plugin"), edn.Text(p.Name),
				edn.K("condition"), edn.K(condition(p)),
				edn.K("version"), edn.Text(p.Description.Version),
				edn.K("binary"), edn.Text(p.Binary),
				edn.K("capabilities"), keywords(provided(loaded, p.Name)),
				edn.K("where"), edn.Text(p.Where),
			)
		}
		return c.value(c.env.Stdout, edn.MustMap(edn.K("plugins"), edn.Vector(all...)))
	}
	rows := make([][]string, len(loaded.Plugins))
	for i, p := range loaded.Plugins {
		rows[i] = []string{p.Name, p.Description.Version, condition(p), strings.Join(provided(loaded, p.Name), " "), p.Where}
	}
	return table(c.env.Stdout, []string{"plugin", "version", "condition", "provides", "block"}, rows)
}

// relative shortens a path for display.
func (c *command) relative(path string) string {
	if rel, err := filepath.Rel(c.env.Dir, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// started is how a plugin is started, as a person would write it.
func (c *command) started(p config.Plugin) string {
	return strings.Join(append([]string{c.relative(p.Command[0])}, p.Command[1:]...), " ")
}

// nearby shortens the paths in a value for display.
func (c *command) nearby(v edn.Value) edn.Value {
	out, err := v.Walk(nil, func(v edn.Value) edn.Value {
		if s, ok := v.AsString(); ok && filepath.IsAbs(s) {
			return edn.Text(c.relative(s))
		}
		return v
	})
	if err != nil {
		return v // it nests too deep to be walked
	}
	return out
}

func (c *command) inspectPlugin(loaded *daemon.Loaded, name string) error {
	at := slices.IndexFunc(loaded.Plugins, func(p config.Plugin) bool { return p.Name == name })
	if at < 0 {
		var names []string
		for _, p := range loaded.Plugins {
			names = append(names, p.Name)
		}
		e := contract.Errorf("not-found", "there is no plugin %q in the configuration", name).WithHint("\"ferment plugin list\" names those that are there")
		if near := contract.Nearest(name, names); near != "" {
			e = e.WithHint("did you mean " + near + "?")
		}
		return e
	}
	p := loaded.Plugins[at]
	if c.format != formatText {
		return c.value(c.env.Stdout, edn.MustMap(
			edn.K("plugin"), edn.Text(p.Name),
			edn.K("condition"), edn.K(condition(p)),
			edn.K("command"), edn.Text(c.started(p)),
			edn.K("binary"), edn.Text(p.Binary),
			edn.K("config"), c.nearby(p.Config),
			edn.K("description"), p.Description.Value(),
		))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s (%s, block at %s)\n", p.Name, p.Description.Version, condition(p), p.Where)
	fmt.Fprintf(&b, "  command: %s\n", c.started(p))
	if p.Binary != "" {
		fmt.Fprintf(&b, "  binary:  %s\n", p.Binary)
	}
	needs := "none"
	if len(p.Description.Needs) > 0 {
		needs = strings.Join(p.Description.Needs, " ")
	}
	fmt.Fprintf(&b, "  needs:   %s\n", needs)
	if p.Config.Len() > 0 {
		fmt.Fprintf(&b, "  config:  %s\n", c.nearby(p.Config))
	}
	reg := loaded.Generation.Registry
	for _, id := range provided(loaded, p.Name) {
		entry, _ := reg.Capability(id)
		fmt.Fprintf(&b, "\n  %s", id)
		if entry.Advertised != "" && entry.Advertised != id {
			fmt.Fprintf(&b, "  (advertised as %s)", entry.Advertised)
		}
		fmt.Fprintf(&b, "\n    %s, effects %s", entry.Kind, strings.Join(entry.Effects, " "))
		if entry.Description != "" {
			fmt.Fprintf(&b, "\n    %s", entry.Description)
		}
		for _, intent := range entry.Intents {
			fmt.Fprintf(&b, "\n    serves %s: %s -> %s", intent, entry.InSchema.For(intent), entry.OutSchema.For(intent))
		}
		b.WriteByte('\n')
	}
	_, err := fmt.Fprint(c.env.Stdout, b.String())
	return err
}
