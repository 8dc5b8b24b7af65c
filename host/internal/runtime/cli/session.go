package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/exit"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) sessionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "session",
		Short: "open, freeze and delete the sessions of the daemon, and use their variables",
	}
	cmd.AddCommand(
		c.sessionVerb("open [ID]", "open", "open a session; it is created if there is none", "ferment session open talk"),
		c.sessionVerb("show ID", "get", "show a session with its last turns", "ferment session show talk"),
		c.sessionListCommand(),
		c.sessionVerb("freeze ID", "freeze", "freeze a session; it keeps everything", "ferment session freeze talk"),
		c.sessionVerb("thaw ID", "thaw", "open a frozen session", "ferment session thaw talk"),
		c.sessionVerb("worker-freeze ID", "worker/freeze", "stop the model servers that plugins run for a session, until they are thawed",
			"ferment session worker-freeze talk"),
		c.sessionVerb("worker-thaw ID", "worker/thaw", "start the model servers that plugins run for a session, and permit their start",
			"ferment session worker-thaw talk"),
		c.sessionVerb("delete ID", "delete", "delete a session with its variables and turns", "ferment session delete talk --yes"),
		c.sessionPutCommand(),
		c.sessionGetCommand(),
		c.sessionDeleteVarsCommand(),
	)
	return cmd
}

// orderSession executes a session action of the daemon and shows the result. Each function in seen
// gets the result before it is shown.
func (c *command) orderSession(
	cmd *cobra.Command, action edn.Value, version int, show func(edn.Value) error, seen ...func(edn.Value),
) error {
	if cmd.Flags().Changed("version") {
		if version < 1 {
			return usagef("--version %d: expected 1 or more, the version that the session must have", version)
		}
		action = action.AssocKey("session/version", edn.Int(int64(version)))
	}
	there, err := c.reach(cmd.Context())
	if err == nil && there == nil {
		err = c.noDaemon(cmd.Context())
	}
	if err != nil {
		return err
	}
	result, err := there.Session(cmd.Context(), action)
	if err != nil {
		return err
	}
	for _, see := range seen {
		see(result)
	}
	switch {
	case c.format != formatText:
		return c.value(c.env.Stdout, result)
	}
	return show(result)
}

func (c *command) sessionVerb(use, action, short, example string) *cobra.Command {
	var version int
	var yes bool
	verb, argument, _ := strings.Cut(use, " ")
	cmd := &cobra.Command{
		Use:     use,
		Short:   short,
		Example: "  " + example,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			order := actionOf(action)
			if len(args) > 0 {
				order = order.AssocKey("session/id", edn.Text(args[0]))
			}
			if verb == "delete" && !yes {
				if err := c.confirm("session "+args[0]+" is deleted with its variables and turns", "--yes"); err != nil {
					return err
				}
			}
			if verb == "show" {
				order = order.AssocKey("turns?", edn.Bool(true))
			}
			return c.orderSession(cmd, order, version, func(s edn.Value) error { return c.showSession(s, verb == "delete") })
		},
	}
	if strings.HasPrefix(argument, "[") {
		cmd.Args = cobra.MaximumNArgs(1)
	}
	if verb != "show" && !strings.HasPrefix(verb, "worker-") {
		expectVersion(cmd, &version)
	}
	if verb == "delete" {
		cmd.Flags().BoolVar(&yes, "yes", false, yesUsage)
	}
	return cmd
}

// print writes to standard output.
func (c *command) print(format string, args ...any) {
	_, _ = io.WriteString(c.env.Stdout, display.Shown(c.env.Stdout, fmt.Sprintf(format, args...)))
}

func expectVersion(cmd *cobra.Command, version *int) {
	cmd.Flags().IntVar(version, "version", 0, "the version that the session must have")
}

func (c *command) showSession(s edn.Value, deleted bool) error {
	state := plain(s.Key("session/state"))
	if deleted {
		state = "deleted"
	}
	c.print("%s  version %s  %s  owner %s\n", plain(s.Key("session/id")), plain(s.Key("session/version")), state, plain(s.Key("session/owner")))
	for _, note := range []string{"summary", "snapshot", "meta", "facts"} {
		if v := s.Key("session/" + note); !v.IsNil() {
			c.print("%s: %s\n", note, v)
		}
	}
	if n := s.Key("plugins"); !n.IsNil() {
		c.print("plugins that confirmed it: %s\n", n)
	}
	if by := s.Key("session/frozen-by"); !by.IsNil() {
		c.print("frozen by %s\n", by)
	}
	if s.Key("turns/cut?").Truthy() {
		c.print("earlier turns are not shown\n")
	}
	for t := range s.Key("session/turns").Elems() {
		c.print("%s: %s\n", plain(t.Key("role")), plain(t.Key("text")))
	}
	return nil
}

func (c *command) sessionListCommand() *cobra.Command {
	var after string
	var limit int
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "list the sessions of the daemon by id",
		Example: "  ferment session list\n  ferment session list --limit 10 --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			action := actionOf("list", edn.K("limit"), edn.Int(int64(limit)), edn.K("after"), edn.Text(after))
			return c.orderSession(cmd, action, 0, func(list edn.Value) error {
				var rows [][]string
				for s := range list.Key("sessions").Elems() {
					at, _ := s.Key("session/last-access-at").AsInst()
					rows = append(rows, []string{
						plain(s.Key("session/id")), plain(s.Key("session/state")), plain(s.Key("session/version")),
						plain(s.Key("session/owner")), at.UTC().Format(time.RFC3339),
					})
				}
				if len(rows) == 0 {
					c.print("there is no session\n")
					return nil
				}
				if err := display.Table(c.env.Stdout, []string{"session", "state", "version", "owner", "last access"}, rows); err != nil {
					return err
				}
				if next := plain(list.Key("next")); next != "" {
					c.print("\"ferment session list --after %s\" lists more\n", next)
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&after, "after", "", "list only sessions after this id")
	cmd.Flags().IntVar(&limit, "limit", 50, "maximum number of sessions to list, up to 200")
	return cmd
}

func (c *command) sessionPutCommand() *cobra.Command {
	var version int
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "put ID KEY=EDN...",
		Short: "write variables of a session, all or none",
		Example: "  ferment session put talk session/language=:pl\n" +
			"  ferment session put talk 'session/style=:brief' 'session/context-summary=\"so far\"' --ttl 1h",
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("ttl") && ttl == 0 {
				return usagef("--ttl 0s: expected a time above zero, such as 15m or 7d")
			}
			vars := edn.MustMap()
			for _, arg := range args[1:] {
				key, text, ok := strings.Cut(arg, "=")
				if !ok {
					return usagef("%q is not KEY=EDN, such as session/language=:pl", arg)
				}
				v, err := edn.ReadString(text, edn.WithLimits(edn.Body), edn.WithSource(key))
				if err != nil {
					return usagef("%w", err)
				}
				name := edn.Text(strings.TrimPrefix(key, ":"))
				if vars.Has(name) {
					return usagef("%s: the variable has two values", arg)
				}
				vars = vars.Assoc(name, v)
			}
			action := actionOf("put-vars", edn.K("session/id"), edn.Text(args[0]), edn.K("vars"), vars)
			if ttl > 0 {
				action = action.AssocKey("ttl-ms", edn.Int(ttl.Milliseconds()))
			}
			return c.orderSession(cmd, action, version, func(s edn.Value) error { return c.showSession(s, false) })
		},
	}
	expectVersion(cmd, &version)
	spanFlag(cmd.Flags(), &ttl, "ttl", 0, "lifetime of the variables, such as 15m or 7d; default: that of their class")
	return cmd
}

// keysOf returns the names of variables in arguments.
func keysOf(args []string) edn.Value {
	keys := make([]edn.Value, len(args))
	for i, key := range args {
		keys[i] = edn.Text(key)
	}
	return edn.Vector(keys...)
}

func (c *command) sessionGetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "get ID [KEY...]",
		Short: "print variables of a session, all without names",
		Long: "get prints variables of a session; without names it prints all that may be read.\n" +
			"Exit codes: 0 each variable that was named is set, 5 one of them is not.",
		Example: "  ferment session get talk\n  ferment session get talk session/language --edn",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			action := actionOf("get-vars", edn.K("session/id"), edn.Text(args[0]))
			if len(args) > 1 {
				action = action.AssocKey("keys", keysOf(args[1:]))
			}
			var unset []string
			err := c.orderSession(cmd, action, 0, func(result edn.Value) error {
				for key, v := range result.Key("vars").Entries() {
					expires := ""
					if at, ok := result.Key("expires-at").Get(key); ok {
						t, _ := at.AsInst()
						expires = "  until " + t.UTC().Format(time.RFC3339)
					}
					c.print("%s = %s%s\n", plain(key), v, expires)
				}
				return nil
			}, func(result edn.Value) {
				for _, name := range args[1:] {
					if !result.Key("vars").HasKey(strings.TrimPrefix(name, ":")) {
						unset = append(unset, name)
					}
				}
			})
			if err == nil && len(unset) > 0 {
				c.printf("not set: %s\n", strings.Join(unset, ", "))
				err = quietError{exit.NotFound}
			}
			return err
		},
	}
}

func (c *command) sessionDeleteVarsCommand() *cobra.Command {
	var version int
	var all, yes bool
	cmd := &cobra.Command{
		Use:     "del ID KEY...",
		Short:   "delete variables of a session, all or none",
		Example: "  ferment session del talk session/style\n  ferment session del talk --all --yes",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 1) {
				return usagef("del needs either names of variables or --all")
			}
			if all && !yes {
				if err := c.confirm("all variables of session "+args[0]+" are deleted", "--yes"); err != nil {
					return err
				}
			}
			action := actionOf("del-all-vars", edn.K("session/id"), edn.Text(args[0]))
			if !all {
				action = actionOf("del-vars", edn.K("session/id"), edn.Text(args[0]), edn.K("keys"), keysOf(args[1:]))
			}
			return c.orderSession(cmd, action, version, func(s edn.Value) error {
				c.print("deleted %d\n", s.Key("deleted").Len())
				return nil
			})
		},
	}
	expectVersion(cmd, &version)
	cmd.Flags().BoolVar(&all, "all", false, "delete all variables")
	cmd.Flags().BoolVar(&yes, "yes", false, yesUsage)
	return cmd
}
