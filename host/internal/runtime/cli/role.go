package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) roleCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "role", Short: "list, create and delete roles, grant and revoke them",
		Long: "The roles of the configuration are the built-in ones and those of the role blocks in ferment.hcl; its rules say what\n" +
			"they permit. A created role is stored with the users, and includes roles of the configuration.",
	}
	var end ending
	cmd.AddCommand(
		c.roleListCommand(), c.roleKnownCommand(), c.roleCreateCommand(), c.roleDeleteCommand(),
		&cobra.Command{
			Use: "grant USER ROLE", Short: "give a user a role", Example: "  ferment role grant ann operator", Args: cobra.ExactArgs(2),
			RunE: func(cmd *cobra.Command, args []string) error {
				return c.orderUser(cmd, roleAction("grant-role", args), "has the role "+args[1])
			},
		},
		end.flags(&cobra.Command{
			Use: "revoke USER ROLE", Short: "take a role from a user; its tokens lose it too",
			Example: "  ferment role revoke ann operator --dry-run\n  ferment role revoke ann operator --yes", Args: cobra.ExactArgs(2),
			RunE: func(cmd *cobra.Command, args []string) error {
				action, err := end.confirmed(c, roleAction("revoke-role", args), args[0]+" loses the role "+args[1])
				if err != nil {
					return err
				}
				return c.orderUser(cmd, action, "the role "+args[1]+" is revoked")
			},
		}),
	)
	return cmd
}

func roleAction(name string, args []string) edn.Value {
	return actionOf(name, edn.K("user"), edn.Text(args[0]), edn.K("role"), edn.Text(strings.TrimPrefix(args[1], ":")))
}

func (c *command) roleListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "list the roles of the configuration and the created ones, and the users that have them",
		Example: "  ferment role list", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := c.order(cmd.Context(), actionOf("list-roles"))
			if err != nil || c.format != formatText {
				return c.valueOr(list, err)
			}
			var rows [][]string
			for r := range list.Key("roles").Elems() {
				var users []string
				for u := range r.Key("users").Elems() {
					users = append(users, plain(u))
				}
				rows = append(rows, []string{strings.TrimPrefix(plain(r.Key("role")), "role/"), strings.Join(users, " ")})
			}
			return display.Table(c.env.Stdout, []string{"role", "users"}, rows)
		},
	}
}

func (c *command) roleKnownCommand() *cobra.Command {
	return &cobra.Command{
		Use: "known", Short: "list the roles that can be granted, and what the created ones include",
		Example: "  ferment role known", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := c.order(cmd.Context(), actionOf("list-known-roles"))
			if err != nil || c.format != formatText {
				return c.valueOr(list, err)
			}
			var rows [][]string
			for r := range list.Key("roles").Elems() {
				includes := "-"
				if r.HasKey("includes") {
					includes = roleNames(r.Key("includes"))
				}
				rows = append(rows, []string{strings.TrimPrefix(plain(r.Key("role")), "role/"), plain(r.Key("source")), includes, plain(r.Key("doc"))})
			}
			return display.Table(c.env.Stdout, []string{"role", "source", "includes", "doc"}, rows)
		},
	}
}

func (c *command) roleCreateCommand() *cobra.Command {
	var includes []string
	var doc string
	cmd := &cobra.Command{
		Use: "create NAME", Short: "create a role that includes roles of the configuration",
		Long: "create makes a name for some roles of the configuration, which can be granted and revoked like one of them.\n" +
			"Rules do not name it: they permit what they permit to the roles that it includes.",
		Example: "  ferment role create night-shift --include operator --doc 'from 22:00 to 6:00'", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			action := actionOf("create-role", edn.K("role"), edn.Text(strings.TrimPrefix(args[0], ":")))
			if len(includes) > 0 {
				action = action.AssocKey("includes", textSet(includes))
			}
			if doc != "" {
				action = action.AssocKey("doc", edn.Text(doc))
			}
			return c.orderRole(cmd, action, "created")
		},
	}
	cmd.Flags().StringSliceVar(&includes, "include", nil, "roles of the configuration that the new role includes")
	cmd.Flags().StringVar(&doc, "doc", "", "description of the role, shown in lists")
	return cmd
}

func (c *command) roleDeleteCommand() *cobra.Command {
	var end ending
	return end.flags(&cobra.Command{
		Use: "delete NAME", Short: "delete a created role that no user and no token has",
		Example: "  ferment role delete night-shift --dry-run\n  ferment role delete night-shift --yes", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := strings.TrimPrefix(args[0], ":")
			action, err := end.confirmed(c, actionOf("delete-role", edn.K("role"), edn.Text(name)), "the role "+name+" is deleted")
			if err != nil {
				return err
			}
			return c.orderRole(cmd, action, "deleted")
		},
	})
}

// orderRole executes an action on a created role and shows the role.
func (c *command) orderRole(cmd *cobra.Command, action edn.Value, did string) error {
	r, err := c.order(cmd.Context(), action)
	if err != nil || c.format != formatText {
		return c.valueOr(r, err)
	}
	if r.Key("dry-run?").Truthy() {
		did += " (dry run: nothing was done)"
	}
	c.print("role %s: %s\nincludes %s\n", strings.TrimPrefix(plain(r.Key("role")), "role/"), did, roleNames(r.Key("includes")))
	return nil
}
