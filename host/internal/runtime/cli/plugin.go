package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/plugins"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) pluginCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugin",
		Short: "show and control plugins, or create a new one",
	}
	cmd.AddCommand(
		c.pluginNewCommand(),
		c.pluginRuntimeCommand(),
		c.pluginListCommand(),
		c.pluginInspectCommand(),
		c.lockCommand(),
		c.approveCommand(),
		c.installCommand(),
		c.logsCommand(),
		c.ordered("restart", "plugin-restart",
			"stop the processes of a plugin of the daemon and start new ones; ends a quarantine", "restart started"),
		c.ordered("swap", "plugin-swap",
			"start new processes of a plugin of the daemon, then stop the old ones", "swap started"),
		c.ordered("drain", "plugin-drain", "stop the processes of a plugin of the daemon gracefully and start none",
			"stop started"),
		c.ordered("release", "plugin-release", "start a plugin of the daemon that is quarantined or was stopped",
			"start requested"),
		c.quarantineCommand(),
	)
	return cmd
}

// look reads the configuration for display, ignoring the lock file.
func (c *command) look(ctx context.Context) (*setup.Loaded, error) {
	o := c.options()
	o.Lockfile = setup.LockfileShown
	return c.load(ctx, o)
}

func (c *command) pluginListCommand() *cobra.Command {
	var local bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "list the plugins with what they provide, or with their processes if a daemon runs them",
		Example: "  ferment plugin list\n  ferment plugin list --edn",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if there, done, err := c.ask(cmd.Context(), local, actionOf("plugin-list")); done {
				if err != nil {
					return err
				}
				if c.format != formatText {
					return c.value(c.env.Stdout, there)
				}
				return c.pluginTable(there.Key("plugins"))
			}
			loaded, err := c.look(cmd.Context())
			if err != nil {
				return err
			}
			return c.listPlugins(loaded)
		},
	}
	localFlag(cmd, &local)
	return cmd
}

func (c *command) pluginInspectCommand() *cobra.Command {
	var local bool
	cmd := &cobra.Command{
		Use:     "inspect NAME",
		Short:   "show one plugin: program, capabilities, configuration, needs, processes",
		Example: "  ferment plugin inspect chess\n  ferment plugin inspect sat --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if there, done, err := c.ask(cmd.Context(), local, actionOf("plugin-inspect", edn.K("plugin"), edn.Text(args[0]))); done {
				if err != nil {
					return err
				}
				return c.inspectThere(there)
			}
			loaded, err := c.look(cmd.Context())
			if err != nil {
				return err
			}
			return c.inspectPlugin(loaded, args[0])
		},
	}
	localFlag(cmd, &local)
	return cmd
}

// ask sends a question to the daemon if one runs and local is not set. done reports whether it was
// sent.
func (c *command) ask(ctx context.Context, local bool, question edn.Value) (answer edn.Value, done bool, err error) {
	if local {
		return edn.Nil(), false, nil
	}
	there, err := c.reach(ctx)
	if there == nil && err == nil {
		return edn.Nil(), false, nil
	}
	if err == nil {
		answer, err = there.Admin(ctx, question)
	}
	return answer, true, err
}

// inspectThere prints a plugin with its state in the daemon.
func (c *command) inspectThere(v edn.Value) error {
	if c.format != formatText {
		return c.value(c.env.Stdout, v)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s (%s, block at %s)\n", plain(v.Key("plugin")), plain(v.Key("version")),
		plain(v.Key("condition")), plain(v.Key("where")))
	command := plains(v.Key("command"))
	for i := range command {
		command[i] = c.relative(command[i])
	}
	fmt.Fprintf(&b, "  command: %s\n  binary:  %s\n", strings.Join(command, " "), plain(v.Key("binary")))
	if cfg := v.Key("config"); cfg.Len() > 0 {
		fmt.Fprintf(&b, "  config:  %s\n", c.nearby(cfg))
	}
	fmt.Fprintf(&b, "  serves:  %s\n", strings.Join(plains(v.Key("capabilities")), " "))
	b.WriteString(absentLines(v))
	for i := range v.Key("instances").Elems() {
		fmt.Fprintf(&b, "  process: %s for %s (%s), generation %s", plain(i.Key("state")), since(i.Key("since")),
			plain(i.Key("cause")), i.Key("generation"))
		if i.HasKey("pid") {
			fmt.Fprintf(&b, ", pid %s", i.Key("pid"))
		}
		fmt.Fprintf(&b, ", %s, %s\n", diag.Counted(number(i.Key("in-flight")), "call"),
			diag.Counted(number(i.Key("restarts")), "recent restart"))
		if message, ok := i.Key("error").Key("message").AsString(); ok {
			fmt.Fprintf(&b, "           %s\n", message)
		}
		b.WriteString(healthLines(i.Key("health")))
	}
	b.WriteString(qualityLines(v.Key("quality")))
	_, err := io.WriteString(c.env.Stdout, b.String())
	return err
}

// healthLines returns the health that a process reports for each capability.
func healthLines(health edn.Value) string {
	var b strings.Builder
	for id, h := range health.Entries() {
		state := "as the plugin"
		if h.HasKey("state") {
			state = plain(h.Key("state"))
		}
		parts := append([]string{state}, conditionText(h.AssocKey("deaths", h.Key("deaths/lately")))...)
		fmt.Fprintf(&b, "           %s: %s", plain(id), strings.Join(parts, ", "))
		if n := number(h.Key("deaths")); n > 0 {
			fmt.Fprintf(&b, ", %s in all", diag.Counted(n, "crash"))
		}
		if reason, ok := h.Key("reason").AsString(); ok {
			b.WriteString(", " + reason)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// absentLines returns the capabilities that a plugin does not provide, with reason and hint.
func absentLines(v edn.Value) string {
	var b strings.Builder
	for _, e := range []edn.Value{v.Key("disabled"), v.Key("problem")} {
		if e.IsNil() {
			continue
		}
		b.WriteString(diag.WrapLabeled("  why:     ", plain(e.Key("message"))) + "\n")
		b.WriteString(diag.WrapLabeled("  hint:    ", plain(e.Key("hint"))) + "\n")
	}
	if absent := plains(v.Key("capabilities/absent")); len(absent) > 0 {
		fmt.Fprintf(&b, "  absent:  %s\n", strings.Join(absent, " "))
	}
	return b.String()
}

// providedText returns what a plugin provides, or would provide if its hint is followed.
func providedText(loaded *setup.Loaded, p plugins.Plugin) string {
	absent := strings.Join(loaded.Absent(p.Name), " ")
	switch {
	case p.Disabled != nil && absent != "":
		return absent + " (" + p.Disabled.Hint + ")"
	case p.Disabled != nil:
		return "(" + p.Disabled.Hint + ")"
	case absent != "":
		return absent + " (absent)"
	}
	return strings.Join(loaded.Provided(p.Name), " ")
}

// dash returns "-" for an empty table cell.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// listPlugins prints the four versions of each plugin: accepted by the
// configuration, approved, installed, and running.
func (c *command) listPlugins(loaded *setup.Loaded) error {
	if c.format != formatText {
		all := make([]edn.Value, len(loaded.Plugins))
		for i, p := range loaded.Plugins {
			all[i] = edn.MustMap(
				edn.K("plugin"), edn.Text(p.Name),
				edn.K("condition"), edn.K(loaded.Condition(p)),
				edn.K("configured"), edn.Text(p.Wanted),
				edn.K("locked"), edn.Text(loaded.LockedVersion(p.Name)),
				edn.K("installed"), edn.Text(p.Description.Version),
				edn.K("running"), edn.Nil(), // no daemon was asked
				edn.K("lock"), edn.K(setup.Locked(p)),
				edn.K("binary"), edn.Text(p.Binary),
				edn.K("isolation"), setup.ConfinementValue(loaded.Confinement(p)),
				edn.K("capabilities"), keywords(loaded.Provided(p.Name)),
				edn.K("capabilities/absent"), keywords(loaded.Absent(p.Name)),
				edn.K("disabled"), daemon.ErrorOrNil(p.Disabled),
				edn.K("problem"), daemon.ErrorOrNil(p.Problem()),
				edn.K("where"), edn.Text(p.Where),
			)
		}
		return c.value(c.env.Stdout, edn.MustMap(edn.K("plugins"), edn.Vector(all...)))
	}
	rows := make([][]string, len(loaded.Plugins))
	for i, p := range loaded.Plugins {
		rows[i] = []string{p.Name, dash(p.Wanted), dash(loaded.LockedVersion(p.Name)), dash(p.Description.Version), "-",
			loaded.Condition(p), isolated(loaded.Confinement(p)), providedText(loaded, p), p.Where}
	}
	return display.Table(c.env.Stdout,
		[]string{"plugin", "configured", "locked", "installed", "running", "condition", "isolation", "provides",
			"block"}, rows)
}

// isolated returns a summary of the isolation of a plugin.
func isolated(c *plugin.Confinement) string {
	switch {
	case c == nil:
		return "-"
	case len(c.Ungranted) > 0:
		return "ungranted"
	case len(c.Gaps) > 0 && !c.BestEffort, c.Unheld.Any(), len(c.Unmade) > 0:
		return "not-held"
	case c.Enforcement == "port-only":
		return string(c.Level) + " (port-only)"
	}
	return string(c.Level)
}

// relative returns a shorter path for display.
func (c *command) relative(path string) string {
	if rel, err := filepath.Rel(c.env.Dir, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// started returns the command of a plugin as text.
func (c *command) started(p plugins.Plugin) string {
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
		return v // nested too deep
	}
	return out
}

func (c *command) inspectPlugin(loaded *setup.Loaded, name string) error {
	p, missing := loaded.Find(name)
	if missing != nil {
		return missing
	}
	if c.format != formatText {
		return c.value(c.env.Stdout, edn.MustMap(
			edn.K("plugin"), edn.Text(p.Name),
			edn.K("condition"), edn.K(loaded.Condition(p)),
			edn.K("command"), edn.Text(c.started(p)),
			edn.K("binary"), edn.Text(p.Binary),
			edn.K("isolation"), setup.ConfinementValue(loaded.Confinement(p)),
			edn.K("config"), c.nearby(p.Config),
			edn.K("description"), p.Description.Value(),
			edn.K("capabilities/absent"), keywords(loaded.Absent(name)),
			edn.K("disabled"), daemon.ErrorOrNil(p.Disabled),
			edn.K("problem"), daemon.ErrorOrNil(p.Problem()),
		))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s (%s, block at %s)\n", p.Name, p.Description.Version, loaded.Condition(p), p.Where)
	fmt.Fprintf(&b, "  command: %s\n", c.started(p))
	if p.Binary != "" {
		fmt.Fprintf(&b, "  binary:  %s\n", p.Binary)
	}
	needs := "none"
	if len(p.Description.Needs) > 0 {
		needs = strings.Join(p.Description.Needs, " ")
	}
	if len(p.Description.Ports) > 0 {
		needs += fmt.Sprintf(", ports %d", p.Description.Ports)
	}
	fmt.Fprintf(&b, "  needs:   %s\n", needs)
	if held := loaded.Confinement(p); held != nil {
		fmt.Fprintf(&b, "  level:   %s, enforcement %s\n", held.Level, held.Enforcement)
		for _, w := range held.Weaknesses {
			fmt.Fprintf(&b, "           open: %s\n", w.Text)
		}
		for _, g := range held.Gaps {
			fmt.Fprintf(&b, "           cannot be enforced: %s\n", g.Text)
		}
		if held.Unheld.Any() {
			fmt.Fprintf(&b, "           not started: %s\n", held.Unheld.Text())
		}
		if len(held.Unmade) > 0 {
			fmt.Fprintf(&b, "           not started: %s\n", held.UnmadeText())
		}
		for _, u := range held.Ungranted {
			fmt.Fprintf(&b, "           not started: %s is not granted; write isolation { %s }\n", u.Need, u.Line)
		}
	}
	if p.Config.Len() > 0 {
		fmt.Fprintf(&b, "  config:  %s\n", c.nearby(p.Config))
	}
	b.WriteString(absentLines(edn.MustMap(
		edn.K("disabled"), daemon.ErrorOrNil(p.Disabled),
		edn.K("problem"), daemon.ErrorOrNil(p.Problem()),
		edn.K("capabilities/absent"), keywords(loaded.Absent(name)),
	)))
	reg := loaded.Generation.Registry
	for _, id := range loaded.Provided(p.Name) {
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
			fmt.Fprintf(&b, "\n    serves %s: %s -> %s", intent, entry.InSchema.For(intent),
				entry.OutSchema.For(intent))
		}
		b.WriteByte('\n')
	}
	_, err := fmt.Fprint(c.env.Stdout, b.String())
	return err
}
