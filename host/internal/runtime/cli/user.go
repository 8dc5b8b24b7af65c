package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) userCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "user", Short: "add, lock and delete the users of the daemon"}
	cmd.AddCommand(
		c.userAddCommand(), c.userListCommand(), c.userShowCommand(), c.userPasswordCommand(),
		c.userVerb("unlock", "unlock-user", "unlock the account of a user and its tokens", "the account is unlocked"),
		c.userVerb("reset", "reset-login-attempts", "forget the failed logins of a user, which delay or refuse the next ones",
			"failed logins are forgotten"),
		c.endUser("lock", "lock-user", "lock the account of a user: its password and tokens are refused until it is unlocked",
			"the account of %s is locked, and its tokens are refused"),
		c.endUser("delete", "delete-user", "delete a user with its tokens; its runs stay",
			"%s is deleted with all tokens"),
	)
	return cmd
}

func (c *command) userAddCommand() *cobra.Command {
	var accountType, tenant string
	var roles []string
	var none bool
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "add a user; the password comes from a prompt or standard input",
		Long: "add creates a user. A password is read from the terminal, or from standard input if that is not one; it is never\n" +
			"an argument. A user without password can only use tokens.",
		Example: "  ferment user add ann --role admin\n  ferment user add robot --type system --no-password",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			action := actionOf("create-user", edn.K("user"), edn.Text(args[0]))
			if accountType != "" {
				action = action.AssocKey("type", edn.Text(accountType))
			}
			if tenant != "" {
				action = action.AssocKey("tenant", edn.Text(tenant))
			}
			if len(roles) > 0 {
				action = action.AssocKey("roles", textSet(roles))
			}
			if !none {
				password, err := c.password("--no-password adds a user without one")
				if err != nil {
					return err
				}
				action = action.AssocKey("password", edn.Text(password))
			}
			return c.orderUser(cmd, action, "added")
		},
	}
	cmd.Flags().StringVar(&accountType, "type", "", "account type, whose roles auth.account_roles sets; default: simple")
	cmd.Flags().StringVar(&tenant, "tenant", "",
		"tenant of the user, whose budget and runs it shares; default: the host itself")
	cmd.Flags().StringSliceVar(&roles, "role", nil, "roles of the user besides those of its type")
	cmd.Flags().BoolVar(&none, "no-password", false, "the user has no password and can only use tokens")
	return cmd
}

// textSet returns a set of texts.
func textSet(names []string) edn.Value {
	all := make([]edn.Value, len(names))
	for i, name := range names {
		all[i] = edn.Text(strings.TrimPrefix(name, ":"))
	}
	return edn.SetOf(all...)
}

// maxPassword is the maximum size of standard input in bytes, which is more than a password may
// have.
const maxPassword = 4096

// password reads a new password: twice from a terminal, or all of standard input without its last
// line end.
func (c *command) password(hint string) (string, error) {
	file, ok := c.env.Stdin.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		text, err := io.ReadAll(io.LimitReader(c.env.Stdin, maxPassword+1))
		if err != nil {
			return "", fmt.Errorf("read the password: %w", err)
		}
		password := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
		switch {
		case password == "":
			return "", usagef("standard input has no password; %s", hint)
		case len(text) > maxPassword:
			return "", usagef("standard input has more than a password")
		case !utf8.ValidString(password): // it would be sent as another text
			return "", usagef("the password of standard input is not UTF-8, so that no caller could send it")
		}
		return password, nil
	}
	// Raw mode is set before the first question, so that an interrupt restores the echo.
	shown, err := term.MakeRaw(int(file.Fd()))
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	defer func() { _ = term.Restore(int(file.Fd()), shown) }()
	screen := term.NewTerminal(terminalIO{file, c.env.Stderr}, "")
	var typed [2]string
	for i, ask := range []string{"password: ", "once more: "} {
		typed[i], err = c.typed(func() (string, error) { return screen.ReadPassword(ask) })
		if errors.Is(err, io.EOF) { // Ctrl-C or Ctrl-D; a raw terminal makes no signal of them
			c.printf("\r\n")
			err = errInterrupted
		}
		if err != nil {
			return "", fmt.Errorf("read the password: %w", err)
		}
	}
	if typed[0] != typed[1] {
		return "", usagef("the two passwords differ; nothing was done")
	}
	return typed[0], nil
}

// terminalIO combines the input and output of a terminal.
type terminalIO struct {
	io.Reader
	io.Writer
}

// orderUser executes an action on a user and shows the user.
func (c *command) orderUser(cmd *cobra.Command, action edn.Value, did string) error {
	u, err := c.order(cmd.Context(), action)
	if err != nil {
		return err
	}
	if c.format != formatText {
		return c.value(c.env.Stdout, u)
	}
	if u.Key("dry-run?").Truthy() {
		did += " (dry run: nothing was done)"
	}
	c.print("%s (%s): %s\n", plain(u.Key("login")), plain(u.Key("user/id")), did)
	if n, ok := u.Key("tokens").AsInt(); ok {
		c.print("tokens deleted: %d\n", n)
		return nil // the user was deleted
	}
	c.print("type %s  status %s  roles %s\n", plain(u.Key("account/type")), plain(u.Key("status")), roleNames(u.Key("roles/effective")))
	return nil
}

// roleNames returns roles without their namespace.
func roleNames(roles edn.Value) string {
	var names []string
	for r := range roles.Elems() {
		names = append(names, strings.TrimPrefix(plain(r), "role/"))
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, " ")
}

// instant formats an instant.
func instant(v edn.Value) string {
	at, _ := v.AsInst()
	return at.UTC().Format(time.RFC3339)
}

func (c *command) userVerb(verb, action, short, did string) *cobra.Command {
	return &cobra.Command{
		Use: verb + " NAME", Short: short, Example: "  ferment user " + verb + " ann", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.orderUser(cmd, actionOf(action, edn.K("user"), edn.Text(args[0])), did)
		},
	}
}

// ending has the flags of a command that revokes rights.
type ending struct{ yes, dry bool }

func (e *ending) flags(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&e.yes, "yes", false, yesUsage)
	cmd.Flags().BoolVar(&e.dry, "dry-run", false, "only print what would be done")
	return cmd
}

// confirmed returns the action after the question what, unless the flags answer it.
func (e *ending) confirmed(c *command, action edn.Value, what string) (edn.Value, error) {
	switch {
	case e.dry:
		return action.AssocKey("dry-run?", edn.Bool(true)), nil
	case e.yes:
		return action, nil
	}
	return action, c.confirm(what, "--yes")
}

func (c *command) endUser(verb, action, short, what string) *cobra.Command {
	var end ending
	return end.flags(&cobra.Command{
		Use: verb + " NAME", Short: short, Args: cobra.ExactArgs(1),
		Example: "  ferment user " + verb + " ann --dry-run\n  ferment user " + verb + " ann --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			order, err := end.confirmed(c, actionOf(action, edn.K("user"), edn.Text(args[0])), fmt.Sprintf(what, args[0]))
			if err != nil {
				return err
			}
			return c.orderUser(cmd, order, strings.TrimSuffix(verb, "e")+"ed")
		},
	})
}

func (c *command) userShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "show a user with its roles", Example: "  ferment user show ann", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			u, err := c.order(cmd.Context(), actionOf("show-user", edn.K("user"), edn.Text(args[0])))
			if err != nil || c.format != formatText {
				return c.valueOr(u, err)
			}
			c.print("login      %s\nid         %s\ntype       %s\nstatus     %s\ntenant     %s\n", plain(u.Key("login")), plain(u.Key("user/id")),
				plain(u.Key("account/type")), plain(u.Key("status")), dash(plain(u.Key("tenant"))))
			c.print("granted    %s\nroles      %s\npassword   %s\n", roleNames(u.Key("roles")), roleNames(u.Key("roles/effective")), plain(u.Key("password?")))
			c.print("created    %s\n", instant(u.Key("created-at")))
			return nil
		},
	}
}

// valueOr prints a result as data, or returns the error.
func (c *command) valueOr(result edn.Value, err error) error {
	if err != nil {
		return err
	}
	return c.value(c.env.Stdout, result)
}

func (c *command) userListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "list the users of the daemon", Example: "  ferment user list\n  ferment user list --json", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := c.order(cmd.Context(), actionOf("list-users"))
			if err != nil || c.format != formatText {
				return c.valueOr(list, err)
			}
			var rows [][]string
			for u := range list.Key("users").Elems() {
				rows = append(rows, []string{
					plain(u.Key("login")), plain(u.Key("user/id")), plain(u.Key("account/type")), plain(u.Key("status")),
					dash(plain(u.Key("tenant"))), roleNames(u.Key("roles/effective")),
				})
			}
			if len(rows) == 0 {
				c.print("there is no user; \"ferment user add NAME --role admin\" adds the first one\n")
				return nil
			}
			return display.Table(c.env.Stdout, []string{"login", "id", "type", "status", "tenant", "roles"}, rows)
		},
	}
}

func (c *command) userPasswordCommand() *cobra.Command {
	return &cobra.Command{
		Use: "passwd NAME", Short: "change the password of a user, from a prompt or standard input",
		Example: "  ferment user passwd ann", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			password, err := c.password("write the new one to it")
			if err != nil {
				return err
			}
			action := actionOf("set-password", edn.K("user"), edn.Text(args[0]), edn.K("password"), edn.Text(password))
			return c.orderUser(cmd, action, "the password is changed")
		},
	}
}

func (c *command) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "token", Short: "create, list and revoke the tokens of users"}
	var end ending
	cmd.AddCommand(c.tokenCreateCommand(), c.tokenListCommand(), end.flags(&cobra.Command{
		Use: "revoke ID", Short: "revoke a token; every host refuses it within a second",
		Example: "  ferment token revoke k3v9q2ma --dry-run\n  ferment token revoke k3v9q2ma --yes", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			action, err := end.confirmed(c, actionOf("token-revoke", edn.K("token"), edn.Text(args[0])), "the token "+args[0]+" is revoked")
			if err != nil {
				return err
			}
			t, err := c.order(cmd.Context(), action)
			if err != nil || c.format != formatText {
				return c.valueOr(t, err)
			}
			done := "revoked"
			if t.Key("dry-run?").Truthy() {
				done = "would be revoked (dry run: nothing was done)"
			}
			c.print("token %s of %s: %s\n", plain(t.Key("token/id")), plain(t.Key("login")), done)
			return nil
		},
	}))
	return cmd
}

func (c *command) tokenCreateCommand() *cobra.Command {
	var label string
	var ttl time.Duration
	var roles, operations, intents []string
	cmd := &cobra.Command{
		Use:   "create USER",
		Short: "create a token of a user, and print it once",
		Long: "create prints the token on standard output. It is stored nowhere: a lost token cannot be shown again. Without limits it\n" +
			"has all rights of the user, and follows when these change.",
		Example: "  ferment token create ann --ttl 30d\n  ferment token create robot --operation http.v1/act --intent 'text/*' > token",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			action := actionOf("token-create", edn.K("user"), edn.Text(args[0]))
			if label != "" {
				action = action.AssocKey("label", edn.Text(label))
			}
			if cmd.Flags().Changed("ttl") {
				action = action.AssocKey("ttl-ms", edn.Int(ttl.Milliseconds()))
			}
			for _, limit := range []struct {
				flag, key string
				names     []string
			}{{"role", "roles", roles}, {"operation", "operations", operations}, {"intent", "intents", intents}} {
				if cmd.Flags().Changed(limit.flag) {
					action = action.AssocKey(limit.key, textSet(limit.names))
				}
			}
			t, err := c.order(cmd.Context(), action)
			if err != nil || c.format != formatText {
				return c.valueOr(t, err)
			}
			c.printf("token %s of %s, valid until %s; it is shown only now\n", plain(t.Key("token/id")), plain(t.Key("login")), instant(t.Key("expires-at")))
			c.print("%s\n", plain(t.Key("token")))
			return nil
		},
	}
	cmd.Flags().StringVar(&label, "label", "", "description of the token, shown in lists")
	spanFlag(cmd.Flags(), &ttl, "ttl", 0, "lifetime, such as 12h or 30d; default: that of auth.tokens.ttl")
	cmd.Flags().StringSliceVar(&roles, "role", nil, "roles of the user that the token has; default: all")
	cmd.Flags().StringSliceVar(&operations, "operation", nil,
		"operations that the token permits, as names or NS/*; default: all")
	cmd.Flags().StringSliceVar(&intents, "intent", nil, "intents that the token permits, as names or NS/*; default: all")
	return cmd
}

func (c *command) tokenListCommand() *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use: "list", Short: "list tokens without their texts, the latest first",
		Example: "  ferment token list\n  ferment token list --user ann --edn", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			action := actionOf("token-list")
			if user != "" {
				action = action.AssocKey("user", edn.Text(user))
			}
			list, err := c.order(cmd.Context(), action)
			if err != nil || c.format != formatText {
				return c.valueOr(list, err)
			}
			var rows [][]string
			for t := range list.Key("tokens").Elems() {
				until := instant(t.Key("expires-at"))
				if t.Key("expired?").Truthy() {
					until = "expired"
				}
				rows = append(rows, []string{plain(t.Key("token/id")), plain(t.Key("login")), until, limitsOf(t), plain(t.Key("label"))})
			}
			if len(rows) == 0 {
				c.print("there is no token\n")
				return nil
			}
			return display.Table(c.env.Stdout, []string{"token", "user", "until", "limited to", "label"}, rows)
		},
	}
	cmd.Flags().StringVar(&user, "user", "", "only tokens of this user")
	return cmd
}

// limitsOf returns the limits of a token.
func limitsOf(t edn.Value) string {
	var parts []string
	for _, key := range []string{"roles", "operations", "intents"} {
		if !t.HasKey(key) {
			continue
		}
		names := roleNames(t.Key(key))
		parts = append(parts, key+" "+names)
	}
	if len(parts) == 0 {
		return "all"
	}
	return strings.Join(parts, ", ")
}
