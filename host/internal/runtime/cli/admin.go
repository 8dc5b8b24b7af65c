package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/exit"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) adminCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "admin",
		Short: "control the daemon of this data directory, back it up and keep its database",
	}
	cmd.AddCommand(c.reloadCommand(), c.drainCommand(), c.eventsCommand(), c.auditCommand(), c.budgetCommand(), c.actionCommand(), c.levelCommand(),
		c.backupCommand(), c.restoreCommand(), c.gcCommand(), c.databaseStatusCommand(),
		c.migrateCommand(), c.rollbackCommand(), c.repairCommand(), c.unitCommand())
	return cmd
}

func (c *command) reloadCommand() *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "reload the configuration of the daemon, all or nothing",
		Long: "reload reads the configuration files again. Changes take effect without a failed act: new runs start under\n" +
			"the new configuration, runs in progress finish under theirs, and unchanged plugins keep their processes.\n" +
			"A configuration with errors, or one that needs a restart, changes nothing.",
		Example: "  ferment admin reload\n  ferment admin reload --dry-run --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			result, err := c.order(cmd.Context(), actionOf("config-reload", edn.K("dry-run?"), edn.Bool(dry)))
			if err != nil {
				return c.notReloaded(err)
			}
			return c.reloaded(result)
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only print what a reload would do")
	return cmd
}

// notReloaded prints the diagnostics of a rejected configuration in the form of validate.
func (c *command) notReloaded(err error) error {
	e := contract.AsError(err)
	text, ok := e.Details.Key("text").AsString()
	if !ok || c.format != formatText {
		return err
	}
	c.printf("%s\n", trimNewline(text))
	c.printf("the configuration was rejected; the current one stays in force\n")
	return quietError{exit.Code(e)}
}

// reloaded prints the result of a reload or a dry run.
func (c *command) reloaded(result edn.Value) error {
	if c.format != formatText {
		return c.value(c.env.Stdout, result)
	}
	_, err := io.WriteString(c.env.Stdout, reloadText(result))
	return err
}

// reloadText returns the result of a reload as text for people.
func reloadText(result edn.Value) string {
	var b strings.Builder
	for change := range result.Key("changes").Elems() {
		fmt.Fprintf(&b, "%-8s %s", plain(change.Key("action")), dotted(change.Key("path")))
		before, after := change.Key("before"), change.Key("after")
		if !before.IsNil() || !after.IsNil() {
			fmt.Fprintf(&b, ": %s -> %s", cutTo(before.String(), 60), cutTo(after.String(), 60))
		}
		b.WriteByte('\n')
	}
	for warning := range result.Key("warnings").Elems() {
		fmt.Fprintf(&b, "warning: %s\n", plain(warning))
	}
	switch {
	case !result.Key("changed?").Truthy():
		b.WriteString("no change\n")
	case result.Key("dry-run?").Truthy():
		b.WriteString("nothing was done (dry run)\n")
	default:
		fmt.Fprintf(&b, "reloaded, hash %s\n", plain(result.Key("hash")))
	}
	return b.String()
}

func dotted(path edn.Value) string {
	var parts []string
	for p := range path.Elems() {
		parts = append(parts, plain(p))
	}
	return strings.Join(parts, ".")
}

func (c *command) drainCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "stop the daemon when the runs in progress have finished",
		Long: "drain stops the daemon: new acts are rejected, and runs that do not finish in time go on at the next start.\n" +
			"A service manager takes it for a wanted stop and does not start the daemon again.",
		Example: "  ferment admin drain --yes",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !yes {
				if err := c.confirm("the daemon stops, and no service manager starts it again", "--yes"); err != nil {
					return err
				}
			}
			result, err := c.order(cmd.Context(), actionOf("drain"))
			if err != nil {
				return err
			}
			return c.done(result, "the daemon is going down")
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, yesUsage)
	return cmd
}

func (c *command) eventsCommand() *cobra.Command {
	var after string
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "events",
		Short: "print the events of plugins and candidates of the daemon",
		Long: "events prints the latest changes of plugins, opened breakers and quality changes that the daemon keeps, and\n" +
			"the cursor after them. With --after it prints only events after a cursor, such as the one that a swap returns.",
		Example: "  ferment admin events\n  ferment admin events --after host.0 --wait 1s --edn",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			const longest = time.Minute
			if wait < 0 || wait > longest {
				return usagef("--wait %s: expected a time up to %s, such as 10s", wait, longest)
			}
			action := actionOf("events", edn.K("wait-ms"), edn.Int(wait.Milliseconds()))
			if after != "" {
				action = action.AssocKey("after", edn.Text(after))
			}
			result, err := c.order(cmd.Context(), action)
			if err != nil {
				return err
			}
			if c.format != formatText {
				return c.value(c.env.Stdout, result)
			}
			var b strings.Builder
			for e := range result.Key("events").Elems() {
				b.WriteString(eventLine(e))
			}
			fmt.Fprintf(&b, "cursor %s\n", plain(result.Key("cursor")))
			_, err = io.WriteString(c.env.Stdout, b.String())
			return err
		},
	}
	cmd.Flags().StringVar(&after, "after", "",
		"print only events after this cursor, which a swap or an earlier call has printed")
	spanFlag(cmd.Flags(), &wait, "wait", 0, "how long to wait for an event, up to 1m")
	return cmd
}

// eventLine returns an event as text for people.
func eventLine(e edn.Value) string {
	if !e.HasKey("details") {
		return auditLine(e) + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", plain(e.Key("at")), plain(e.Key("event")))
	for _, about := range []string{"cap/id", "intent"} {
		if e.HasKey(about) {
			fmt.Fprintf(&b, " %s", e.Key(about))
		}
	}
	fmt.Fprintf(&b, " %s\n", e.Key("details"))
	return b.String()
}

func (c *command) actionCommand() *cobra.Command {
	var key string
	var names []string
	for _, a := range httpapi.Actions() {
		names = append(names, a.Name)
	}
	slices.Sort(names)
	cmd := &cobra.Command{
		Use:   "action FILE",
		Short: "send an admin action from a file, or - for standard input",
		Long: "action sends one map with :action and its keys to the daemon and prints the result. GET /openapi.json\nlists the actions with their schemas.\n" +
			"With --key a repeated command does not execute the action again, but prints the result of the first one.\n" +
			"The actions are " + strings.Join(names, ", ") + ".",
		Example: "  ferment admin action action.edn\n  ferment admin action --edn - < action.edn",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			action, err := c.readValue(args[0])
			if err != nil {
				return err
			}
			result, err := c.orderOnce(cmd.Context(), key, action)
			if err != nil {
				return err
			}
			return c.value(c.env.Stdout, result)
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "idempotency key: 1 to 128 visible ASCII characters, new for each action")
	return cmd
}

// done prints text for people, or the result for programs.
func (c *command) done(result edn.Value, text string) error {
	if c.format != formatText {
		return c.value(c.env.Stdout, result)
	}
	_, err := fmt.Fprintln(c.env.Stdout, text)
	return err
}

func number(v edn.Value) int {
	n, _ := v.AsInt()
	return int(n)
}

func plains(list edn.Value) []string {
	var out []string
	for v := range list.Elems() {
		out = append(out, plain(v))
	}
	return out
}

// since returns the time since an instant with at most two units.
func since(v edn.Value) string { return age(v, time.Now()) }

// age returns the time from an instant to now with at most two units.
func age(v edn.Value, now time.Time) string {
	at, ok := v.AsInst()
	if !ok {
		return "?"
	}
	d := now.Sub(at)
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", int(d.Hours())/24)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
}

// pluginTable prints the plugins of a daemon with their processes.
func (c *command) pluginTable(plugins edn.Value) error {
	var rows [][]string
	for p := range plugins.Elems() {
		head := []string{plain(p.Key("plugin")), dash(plain(p.Key("configured"))), dash(plain(p.Key("locked"))),
			dash(plain(p.Key("installed"))), "-", plain(p.Key("condition"))}
		n, quality := 0, qualityOf(p.Key("quality"))
		for i := range p.Key("instances").Elems() {
			row := []string{"", "", "", "", "", ""}
			if n == 0 {
				row = head
			}
			row[4] = dash(plain(i.Key("version")))
			n++
			pid := "-"
			if i.HasKey("pid") {
				pid = i.Key("pid").String()
			}
			rows = append(rows, append(row, plain(i.Key("state")), since(i.Key("since")), pid,
				i.Key("in-flight").String(), i.Key("restarts").String(), quality, plain(i.Key("error").Key("message"))))
			quality = ""
		}
		if n == 0 {
			rows = append(rows, append(head, "-", "", "-", "", "", quality, plain(p.Key("disabled").Key("hint"))))
		}
	}
	return display.Table(c.env.Stdout,
		[]string{"plugin", "configured", "locked", "installed", "running", "condition", "state", "for", "pid",
			"in flight", "restarts", "quality", "problem"}, blankNil(rows))
}

// qualityOf returns the quality of a plugin: the states other than ok, otherwise ok; empty if no
// answer was judged.
func qualityOf(standings edn.Value) string {
	var states []string
	judged := false
	for s := range standings.Elems() {
		state := plain(s.Key("state"))
		judged = judged || number(s.Key("samples")) > 0
		if state != "ok" && !slices.Contains(states, state) {
			states = append(states, state)
		}
	}
	switch {
	case len(states) > 0:
		return strings.Join(states, ", ")
	case judged:
		return "ok"
	}
	return "-"
}

// qualityLines returns the quality values of a plugin, one line per capability and intent.
func qualityLines(standings edn.Value) string {
	var b strings.Builder
	for s := range standings.Elems() {
		fmt.Fprintf(&b, "  quality: %s for %s: %s, %s of %s answers passed", plain(s.Key("cap/id")),
			plain(s.Key("intent")), plain(s.Key("state")), s.Key("passes"), s.Key("samples"))
		if floor := s.Key("min-pass-rate"); !floor.IsNil() {
			fmt.Fprintf(&b, " (below %s: %s)", floor, plain(s.Key("action")))
		}
		if s.HasKey("latency-ms") {
			fmt.Fprintf(&b, ", %s ms", s.Key("latency-ms"))
		}
		for _, part := range speedText(s) {
			b.WriteString(", " + part)
		}
		if s.HasKey("cost-usd") {
			fmt.Fprintf(&b, ", %s usd", plain(s.Key("cost-usd")))
		}
		b.WriteByte('\n')
		if why, ok := s.Key("why").AsString(); ok {
			fmt.Fprintf(&b, "           %s\n", why)
		}
		if s.HasKey("stead") {
			fmt.Fprintf(&b, "           replaced by %s\n", plain(s.Key("stead")))
		}
		if at := s.Key("reopens-at"); !at.IsNil() {
			fmt.Fprintf(&b, "           next probe in %s\n", until(at))
		}
	}
	return b.String()
}

// until returns the time until an instant as text.
func until(v edn.Value) string {
	at, ok := v.AsInst()
	if !ok {
		return "?"
	}
	return time.Until(at).Round(time.Second).String()
}

func blankNil(rows [][]string) [][]string {
	for _, row := range rows {
		for i := range row {
			if row[i] == "nil" {
				row[i] = ""
			}
		}
	}
	return rows
}

// ordered returns a command for an admin action on one plugin.
func (c *command) ordered(use, action, short, begun string) *cobra.Command {
	return &cobra.Command{
		Use: use + " NAME", Short: short,
		Example: "  ferment plugin " + use + " chess",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.orderPlugin(cmd.Context(), actionOf(action, edn.K("plugin"), edn.Text(args[0])),
				"plugin "+args[0]+": "+begun)
		},
	}
}

func (c *command) orderPlugin(ctx context.Context, action edn.Value, text string) error {
	result, err := c.order(ctx, action)
	if err != nil {
		return err
	}
	return c.done(result, text)
}

func (c *command) quarantineCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:     "quarantine NAME",
		Short:   "take a plugin of the daemon out of service until it is released",
		Example: "  ferment plugin quarantine chess --reason 'moves too slowly'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			action := actionOf("plugin-quarantine", edn.K("plugin"), edn.Text(args[0]))
			if reason != "" {
				action = action.AssocKey("reason", edn.Text(reason))
			}
			return c.orderPlugin(cmd.Context(), action, "plugin "+args[0]+": being taken out of service")
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason, shown in lists and errors")
	return cmd
}
