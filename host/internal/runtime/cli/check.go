package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) checkCommand() *cobra.Command {
	var bind []string
	var budget string
	cmd := &cobra.Command{
		Use:   "check PLAN.edn ...",
		Short: "check plans without running them",
		Long: "check holds plans against the configuration: names, slots, schemas, effects, gates, budgets. All\n" +
			"findings are printed at once with their place, and what a run could spend at most. No capability is called.",
		Example: "  ferment check examples/plans/hello.edn\n  ferment check examples/plans/hello.edn --budget '{:max-attempts 3}'\n  ferment check plan.edn --json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			bindings, err := bound(bind, edn.Nil())
			if err != nil {
				return err
			}
			request, err := readBudget(budget)
			if err != nil {
				return err
			}
			cfg, err := c.load(cmd.Context(), c.options())
			if err != nil {
				return err
			}
			failed := false
			for _, name := range args {
				ok, err := c.checkOne(name, bindings, request, cfg)
				if err != nil {
					return err
				}
				failed = failed || !ok
			}
			if failed {
				return quietError{contract.ExitNegative}
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&bind, "bind", nil, "what a run gives the plans, as NAME=EDN; may be repeated")
	cmd.Flags().StringVar(&budget, "budget", "", "what a run may spend, as EDN")
	return cmd
}

// planEnv is what surrounds a plan that somebody checks; bindings are those
// that a caller gives besides, nil or a map.
func planEnv(bindings edn.Value, loaded *daemon.Loaded) plan.Env {
	return plan.Env{
		Registry: loaded.Generation.Registry, Policies: loaded.Generation.Policies,
		Grant:   loaded.Generation.Effects.Grant([]string{policy.RoleAdmin}), // of whoever owns the configuration
		Budgets: loaded.Generation.Budgets,
		Outer:   func(name string) bool { return bindings.IsMap() && bindings.HasKey(name) },
	}
}

// noPlan refuses a value that no check can say more about.
func noPlan(name string, v edn.Value) error {
	return contract.Errorf("plan/invalid", "%s is no plan: expected a map with :nodes, got %s", sourceName(name), v.Kind())
}

// readPlan reads a plan and holds it against the configuration. The plan is nil
// if the value is none.
func readPlan(v edn.Value, positions *edn.Positions, bindings edn.Value, loaded *daemon.Loaded) (*plan.Plan, []plan.Finding) {
	p, findings := plan.Parse(v, positions, plan.WithLimits(loaded.Limits()))
	if p == nil {
		return nil, findings
	}
	return p, plan.Check(p, planEnv(bindings, loaded))
}

func (c *command) checkOne(name string, bindings, budget edn.Value, loaded *daemon.Loaded) (bool, error) {
	v, positions, err := c.readPlan(name)
	var syntax *edn.SyntaxError
	if errors.As(err, &syntax) {
		c.problem(err)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	p, findings := readPlan(v, positions, bindings, loaded)
	var worst plan.Worst
	if p != nil && !plan.HasErrors(findings) {
		env := planEnv(bindings, loaded)
		env.Request.Budget = policy.FieldsOf(budget, policy.Origin{Source: policy.SourceRequest})
		worst = plan.WorstCase(p, env)
		findings = append(findings, plan.WithinBudget(&worst, env, p)...)
	}
	failed := plan.HasErrors(findings)
	if c.format != formatText {
		values := make([]edn.Value, len(findings))
		for i, f := range findings {
			values[i] = f.Value()
		}
		var b edn.MapBuilder
		b.Key("file", edn.Text(name))
		b.Key("valid?", edn.Bool(!failed))
		b.Key("findings", edn.Vector(values...))
		b.Key("worst-case", worst.Value())
		b.Key("unbounded", worst.OpenValue())
		return !failed, c.value(c.env.Stdout, b.Map())
	}
	if err := c.tell(c.env.Stdout, name, positions, findings); err != nil {
		return false, err
	}
	if !failed {
		most := ""
		if s := worst.String(); s != "" {
			most = "; at most " + s
		}
		_, err = fmt.Fprintf(c.env.Stdout, "%s: ok, %s%s\n", sourceName(name), config.Counted(v.Key("nodes").Len(), "node"), most)
	}
	return !failed, err
}

// tell prints findings of a plan for people, in the form of those of a configuration.
func (c *command) tell(w io.Writer, name string, positions *edn.Positions, findings []plan.Finding) error {
	var r config.Report
	text := positions.Shown()
	for _, f := range findings {
		r.Shown = append(r.Shown, diagnosed(sourceName(name), f).Quoting(text))
	}
	_, err := io.WriteString(w, r.Findings(c.color(w)))
	return err
}

// diagnosed is a finding of a plan as a diagnostic.
func diagnosed(source string, f plan.Finding) config.Diagnostic {
	d := config.Diagnostic{
		Type:    f.Check,
		Message: f.Message,
		Range: &config.Range{
			File:  source,
			Start: config.Position{Line: f.Line, Column: f.Column},
			End:   config.Position{Line: f.EndLine, Column: f.EndColumn},
		},
	}
	if f.Severity == plan.Warning {
		d.Severity = config.SeverityWarning
	}
	if !f.Nearest.IsNil() {
		near := f.Nearest.String()
		d.Message = strings.TrimSuffix(d.Message, "; nearest is "+near)
		d.Hint = "did you mean " + near + "?"
	}
	return d
}

// readBudget reads a budget that was given on the command line; nil for none.
func readBudget(text string) (edn.Value, error) {
	if text == "" {
		return edn.Nil(), nil
	}
	v, err := edn.ReadString(text, edn.WithLimits(edn.Body), edn.WithSource("--budget"))
	if err != nil {
		return edn.Nil(), contract.SyntaxError("invalid-request", err)
	}
	if _, err := contract.ParseBudget(v); err != nil {
		return edn.Nil(), usagef("--budget: %s, such as '{:max-usd 0.05M :max-attempts 3}'", err.FullMessage())
	}
	return v, nil
}
