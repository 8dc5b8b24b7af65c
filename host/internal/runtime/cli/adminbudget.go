package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) budgetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "budget",
		Short: "show or adjust the budgets of the daemon",
	}
	cmd.AddCommand(c.budgetShowCommand(), c.budgetAdjustCommand())
	return cmd
}

func (c *command) budgetShowCommand() *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "show the budgets of the daemon: limit, used, reserved and left",
		Long: "show lists the budgets of the tenants and of the callers with calls in this window. The tenant\n" +
			"\"host\" stands for all callers without a tenant. The rest is the limit plus grants, less used\n" +
			"amounts and reservations of calls in progress. Counters outlive a restart of the daemon if\n" +
			"store.driver keeps its journal.",
		Example: "  ferment admin budget show\n  ferment admin budget show --user ann --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			action := actionOf("budget-show")
			if user != "" {
				action = action.AssocKey("user", edn.Text(user))
			}
			result, err := c.order(cmd.Context(), action)
			if err != nil {
				return err
			}
			return c.budgets(result, result)
		},
	}
	cmd.Flags().StringVar(&user, "user", "", "show only this caller, even if it has no calls in this window")
	return cmd
}

func (c *command) budgetAdjustCommand() *cobra.Command {
	var user, tenant, grant, charge string
	cmd := &cobra.Command{
		Use:   "adjust",
		Short: "raise the limit of a budget until its window ends, or charge it",
		Long: "adjust changes one budget of the daemon immediately, also for calls in progress. A grant is added to the\n" +
			"limits; a charge counts as used, also beyond the limits. Both last until the window ends;\n" +
			"a reload and a restart keep them. Permanent limits are set in the configuration.",
		Example: "  ferment admin budget adjust --user ann --grant '{:usd 5}'\n  ferment admin budget adjust --tenant=lab --grant '{:attempts 1000}' --charge '{:usd 0.25M}'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			action, err := adjustment(user, tenant, grant, charge)
			if err != nil {
				return err
			}
			result, err := c.order(cmd.Context(), action)
			if err != nil {
				return err
			}
			return c.budgets(edn.MustMap(edn.K("scopes"), edn.Vector(result)), result)
		},
	}
	cmd.Flags().StringVar(&user, "user", "", "change the budget of this caller")
	cmd.Flags().StringVar(&tenant, "tenant", "",
		"change the common budget of the callers of this tenant; without a name: that of callers without a tenant")
	cmd.Flags().Lookup("tenant").NoOptDefVal = policy.HostTenant
	cmd.Flags().StringVar(&grant, "grant", "", "amounts to add to the limits, as EDN such as '{:usd 5 :attempts 100}'")
	cmd.Flags().StringVar(&charge, "charge", "", "amounts that count as used, as EDN such as '{:usd 0.25M}'")
	return cmd
}

// adjustment returns the action for the flags.
func adjustment(user, tenant, grant, charge string) (edn.Value, error) {
	if (tenant == "") == (user == "") {
		return edn.Nil(), usagef("adjust needs one of --user NAME and --tenant")
	}
	action := actionOf("budget-adjust", edn.K("scope"), edn.K("tenant"))
	if tenant != "" && tenant != policy.HostTenant {
		action = action.AssocKey("tenant", edn.Text(tenant))
	}
	if user != "" {
		action = actionOf("budget-adjust", edn.K("scope"), edn.K("user"), edn.K("user"), edn.Text(user))
	}
	given := false
	for _, part := range []struct{ key, text string }{{"grant", grant}, {"charge", charge}} {
		if part.text == "" {
			continue
		}
		v, err := edn.ReadString(part.text, edn.WithLimits(edn.Body), edn.WithSource("--"+part.key))
		if err != nil {
			return edn.Nil(), usagef("%w", err)
		}
		if !v.IsMap() {
			return edn.Nil(), usagef("--%s is %s, not a map such as '{:usd 5 :attempts 100}'", part.key, v.Kind())
		}
		action, given = action.AssocKey(part.key, v), true
	}
	if !given {
		return edn.Nil(), usagef("adjust needs --grant or --charge")
	}
	return action, nil
}

// budgets prints the budgets in v as a table, or data for programs.
func (c *command) budgets(v, data edn.Value) error {
	if c.format != formatText {
		return c.value(c.env.Stdout, data)
	}
	var rows [][]string
	for s := range v.Key("scopes").Elems() {
		rows = append(rows, budgetRow(s))
	}
	var b strings.Builder
	for each := range v.Key("each").Elems() {
		whose := "each " + plain(each.Key("scope"))
		if whose == "each tenant" {
			whose = "all callers of a tenant"
		}
		fmt.Fprintf(&b, "%s: at most %s (%s)\n", whose, amountsText(each.Key("limit")), plain(each.Key("where")))
	}
	if len(rows) > 0 {
		if err := display.Table(c.env.Stdout, []string{"scope", "limit", "granted", "used", "reserved", "left", "known", "resets"}, rows); err != nil {
			return err
		}
	} else if b.Len() == 0 {
		b.WriteString("the configuration has no budget block, so nothing is counted\n")
	} else {
		b.WriteString("nothing was used in this window\n")
	}
	_, err := io.WriteString(c.env.Stdout, b.String())
	return err
}

func budgetRow(s edn.Value) []string {
	name, resets := scopeText(s)
	left := amountsText(s.Key("left"))
	if s.Key("soft?").Truthy() {
		left += " (nearly used up)"
	}
	return []string{name, amountsText(s.Key("limit")), amountsText(s.Key("granted")), amountsText(s.Key("used")),
		amountsText(s.Key("reserved")), left, plain(s.Key("mark")), resets}
}

// scopeText returns the scope of a budget and the end of its window.
func scopeText(s edn.Value) (name, resets string) {
	name, resets = plain(s.Key("scope")), "never"
	for _, key := range []string{"user", "tenant"} {
		if id, ok := s.Key(key).AsString(); ok {
			name += " " + id
		}
	}
	if at, ok := s.Key("resets").AsInst(); ok {
		resets = at.UTC().Format(time.RFC3339)
	}
	return name, resets
}
