package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/domain/plan"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/exit"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) checkCommand() *cobra.Command {
	var bind, effects []string
	var budget string
	cmd := &cobra.Command{
		Use:   "check PLAN.edn ...",
		Short: "check plans without running them",
		Long: "check checks plans against the configuration: names, slots, schemas, effects, gates, budgets. It prints all\n" +
			"findings with their places, and the maximum cost of a run. No capability is called.",
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
			around, err := newSurroundings(cmd, bindings, effects)
			if err != nil {
				return err
			}
			cfg, err := c.load(cmd.Context(), c.options())
			if err != nil {
				return err
			}
			return c.checkAll(args, around, request, cfg)
		},
	}
	cmd.Flags().StringArrayVar(&bind, "bind", nil, "binding of the plans, as NAME=EDN; may be repeated")
	effectsFlag(cmd, &effects)
	cmd.Flags().StringVar(&budget, "budget", "", "budget of a run, as EDN")
	return cmd
}

// checkAll checks all plans. An unreadable file determines the exit code even if plans have errors.
func (c *command) checkAll(names []string, around surroundings, budget edn.Value, loaded *setup.Loaded) error {
	code := exit.Done
	var plans []*plan.Plan
	for _, name := range names {
		p, ok, err := c.checkOne(name, around, budget, loaded)
		var file *fileError
		switch {
		case errors.As(err, &file):
			code = c.exit(c.ctx, err)
		case err != nil:
			return err
		case !ok && code == exit.Done:
			code = exit.Negative
		}
		plans = append(plans, p)
	}
	if err := unknownBindings(plans, around, planEnv(around, loaded)); err != nil {
		return err
	}
	if code != exit.Done {
		return quietError{code}
	}
	return nil
}

// unknownBindings reports bindings that no plan reads. A nil plan may read any.
func unknownBindings(plans []*plan.Plan, around surroundings, env plan.Env) error {
	var unread []string
	for i, p := range plans {
		if p == nil {
			return nil
		}
		own := plan.Unread(p, env, around.bindings)
		if i == 0 {
			unread = own
		}
		unread = slices.DeleteFunc(unread, func(name string) bool { return !slices.Contains(own, name) })
	}
	if len(unread) == 0 {
		return nil
	}
	near := ""
	for _, p := range plans {
		near = cmp.Or(near, p.NearestBinding(unread[0]))
	}
	return usagef("--bind %s: no node reads the slot :%s%s", unread[0], unread[0], didYouMean(near))
}

// surroundings are the inputs of a plan.
type surroundings struct {
	bindings edn.Value // nil or a map
	effects  policy.Val[[]string]
}

// effectsFlag registers the flag --effects.
func effectsFlag(cmd *cobra.Command, effects *[]string) {
	cmd.Flags().StringSliceVar(effects, "effects", nil,
		"effects that the run may have, such as fs/read,fs/write; the configuration sets their scopes")
}

// newSurroundings returns the inputs of a plan in flags. A run without --effects has no effects; a
// check without it checks no list.
func newSurroundings(cmd *cobra.Command, bindings edn.Value, effects []string) (surroundings, error) {
	around := surroundings{bindings: bindings}
	if len(effects) > 0 || cmd.Name() == "run" {
		slices.Sort(effects)
		around.effects = policy.Of(slices.Compact(effects), policy.Origin{Source: policy.SourceRequest})
	}
	return around, readEffects(effects)
}

// readEffects reports unknown effects, and removes leading colons.
func readEffects(effects []string) error {
	known := contract.Effects()
	for i, name := range effects {
		effects[i] = strings.TrimPrefix(name, ":")
		if !slices.Contains(known, effects[i]) {
			return usagef("--effects: unknown effect %q: expected some of %s%s", name, strings.Join(known, ", "),
				didYouMean(contract.Nearest(effects[i], known)))
		}
	}
	return nil
}

// planEnv returns the environment for a static check.
func planEnv(around surroundings, loaded *setup.Loaded) plan.Env {
	return plan.Env{
		Request:  policy.Layer{Effects: around.effects},
		Registry: loaded.Generation.Registry, Policies: loaded.Generation.Policies,
		Grant:   loaded.Generation.Effects.Grant(policy.Caller{Roles: []string{policy.RoleAdmin}}), // of the owner of the configuration
		Budgets: loaded.Generation.Budgets,
		Prompts: loaded.Generation.Prompts,
		Outer:   func(name string) bool { return around.bindings.IsMap() && around.bindings.HasKey(name) },
	}
}

// readPlan reads a plan and checks it with the configuration. The result is nil if the value is not
// a plan.
func readPlan(
	name string, v edn.Value, positions *edn.Positions, around surroundings, loaded *setup.Loaded,
) (*plan.Plan, []plan.Finding) {
	if isJSONFile(name) {
		v = plan.FromJSON(v, loaded.Generation.Registry)
	}
	p, findings := plan.Parse(v, positions, plan.WithLimits(loaded.Host.Limits()))
	if p == nil {
		return nil, findings
	}
	return p, plan.Check(p, planEnv(around, loaded))
}

// checkOne checks one plan and prints the findings. The plan is nil if the text is not a plan.
func (c *command) checkOne(
	name string, around surroundings, budget edn.Value, loaded *setup.Loaded,
) (p *plan.Plan, ok bool, err error) {
	v, positions, err := c.readPlan(name)
	var syntax *edn.SyntaxError
	if errors.As(err, &syntax) {
		if c.format == formatText {
			return nil, false, c.tellSyntax(c.env.Stdout, syntax)
		}
		return nil, false, c.checked(name, []plan.Finding{plan.SyntaxFinding(syntax)}, plan.Worst{}, nil)
	}
	if err != nil {
		return nil, false, err
	}
	p, findings := readPlan(name, v, positions, around, loaded)
	var worst plan.Worst
	var effects []string
	if p != nil && !plan.HasErrors(findings) {
		env := planEnv(around, loaded)
		effects = env.Registry.EffectsOf(plan.Reach(p, env))
		effects = slices.DeleteFunc(effects, func(e string) bool { return !env.Grant.Admits(e) })
		env.Request.SetBudget(budget, policy.Origin{Source: policy.SourceRequest})
		worst = plan.WorstCase(p, env)
		findings = append(findings, plan.WithinBudget(&worst, env, p)...)
	}
	failed := plan.HasErrors(findings)
	if c.format != formatText {
		return p, !failed, c.checked(name, findings, worst, effects)
	}
	if err := c.tell(c.env.Stdout, name, positions, findings); err != nil {
		return p, false, err
	}
	if !failed {
		most := ""
		if s := worst.String(); s != "" {
			most = "; at most " + s
		}
		if len(effects) > 0 && !around.effects.Set {
			most += "; it may need --effects " + strings.Join(effects, ",")
		}
		_, err = fmt.Fprintf(c.env.Stdout, "%s: ok, %s%s\n", sourceName(name),
			diag.Counted(v.Key("nodes").Len(), "node"), most)
	}
	return p, !failed, err
}

// checked prints the result of a check as data.
func (c *command) checked(name string, findings []plan.Finding, worst plan.Worst, effects []string) error {
	values := make([]edn.Value, len(findings))
	for i, f := range findings {
		values[i] = f.Value()
	}
	var b edn.MapBuilder
	b.Key("file", edn.Text(name))
	b.Key("valid?", edn.Bool(!plan.HasErrors(findings)))
	b.Key("findings", edn.Vector(values...))
	b.Key("worst-case", worst.Value())
	b.Key("unbounded", worst.OpenValue())
	b.Key("effects", edn.Keywords(effects...))
	return c.value(c.env.Stdout, b.Map())
}

// tellSyntax prints a syntax error for people, in the form of findings.
func (c *command) tellSyntax(w io.Writer, e *edn.SyntaxError) error {
	r := diag.Report{Shown: []diag.Diagnostic{diagnosed(e.Source, plan.SyntaxFinding(e)).Excerpted(e.Excerpt())}}
	_, err := io.WriteString(w, r.Findings(c.color(w)))
	return err
}

// tell prints findings for people, in the form of diagnostics.
func (c *command) tell(w io.Writer, name string, positions *edn.Positions, findings []plan.Finding) error {
	var r diag.Report
	text := ""
	if positions != nil {
		text = positions.Shown()
	}
	for _, f := range findings {
		r.Shown = append(r.Shown, diagnosed(sourceName(name), f).Quoting(text))
	}
	_, err := io.WriteString(w, r.Findings(c.color(w)))
	return err
}

// diagnosed returns a finding as a diagnostic.
func diagnosed(source string, f plan.Finding) diag.Diagnostic {
	d := diag.Diagnostic{
		Type:    f.Check,
		Message: f.Message,
		Range: &diag.Range{
			File:  source,
			Start: diag.Position{Line: f.Line, Column: f.Column},
			End:   diag.Position{Line: f.EndLine, Column: f.EndColumn},
		},
	}
	if f.Severity == plan.Warning {
		d.Severity = diag.SeverityWarning
	}
	if len(f.Expected) > 0 {
		d.Expected = edn.Text(":" + strings.Join(f.Expected, ", :"))
	}
	if f.Effect != "" {
		d.Hint = policy.AllowHint(f.Effect)
	}
	d.Hint = cmp.Or(f.Hint, d.Hint)
	if !f.Nearest.IsNil() {
		near := f.Nearest.String()
		d.Message = strings.TrimSuffix(d.Message, "; nearest is "+near)
		d.Hint = "did you mean " + near + "?"
		if strings.HasSuffix(near, "?") {
			d.Hint = "use " + near
		}
	}
	return d
}

// readBudget parses a budget on the command line; nil for an empty text.
func readBudget(text string) (edn.Value, error) {
	if text == "" {
		return edn.Nil(), nil
	}
	v, err := parseTyped("--budget", text)
	if err != nil {
		return edn.Nil(), err
	}
	if _, err := request.ParseBudget(v); err != nil {
		return edn.Nil(), usagef("--budget: %s, such as '{:max-usd 0.05M :max-attempts 3}'", err.FullMessage())
	}
	return v, nil
}
