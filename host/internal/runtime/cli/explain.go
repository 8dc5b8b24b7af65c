package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) explainCommand() *cobra.Command {
	var capability string
	cmd := &cobra.Command{
		Use:   "explain INTENT | explain error TYPE",
		Short: "say who would serve an intent and why, or what an error type means",
		Long: "explain shows, for an intent, the candidates in their order, why the others are passed over, the gates\n" +
			"and the limits, each with the place in the configuration that decided it. No plugin is asked for an answer.",
		Example: "  ferment explain chess/best-move\n  ferment explain chess/best-move --capability chess/embedded\n  ferment explain error runtime/crashed",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "error" && len(args) == 2 {
				return c.explainError(strings.TrimPrefix(args[1], ":"))
			}
			if len(args) > 1 {
				return usagef("explain takes one intent, or the word error and a type")
			}
			loaded, err := c.load(cmd.Context(), c.options())
			if err != nil {
				return err
			}
			return c.explainIntent(loaded, strings.TrimPrefix(args[0], ":"), strings.TrimPrefix(capability, ":"))
		},
	}
	cmd.Flags().StringVar(&capability, "capability", "", "as if the request pinned this capability")
	return cmd
}

func (c *command) explainError(name string) error {
	typ := contract.ResolveAlias(name)
	row, ok := contract.Lookup(typ)
	if !ok {
		e := contract.Errorf("not-found", "there is no error type :%s", name).WithHint("a type is written NS/NAME, such as runtime/crashed")
		if near := contract.NearestType(name); near != "" {
			e = e.WithHint("did you mean " + near + "?")
		}
		return e
	}
	var aliases []string
	for _, a := range row.Aliases {
		aliases = append(aliases, ":"+a)
	}
	var sources []edn.Value
	for _, source := range row.Sources.List() {
		o := row.For(source)
		sources = append(sources, edn.MustMap(
			edn.K("source"), edn.K(source.String()), edn.K("class"), edn.Text(o.Class.String()),
			edn.K("retryable?"), edn.Bool(o.Retryable), edn.K("status"), edn.Int(int64(o.HTTP))))
	}
	if c.format != formatText {
		return c.value(c.env.Stdout, edn.MustMap(
			edn.K("type"), edn.K(row.Type), edn.K("help"), edn.Text(row.Help), edn.K("hint"), edn.Text(row.Hint),
			edn.K("aliases"), edn.Text(strings.Join(aliases, " ")), edn.K("outcomes"), edn.Vector(sources...)))
	}
	var b strings.Builder
	fmt.Fprintf(&b, ":%s\n  %s\n", row.Type, row.Help)
	if row.Hint != "" && row.Hint != row.Help {
		fmt.Fprintf(&b, "  next: %s\n", row.Hint)
	}
	for _, source := range row.Sources.List() {
		o := row.For(source)
		again := "the same request will fail again"
		if o.Retryable {
			again = "the same request may be sent again"
		}
		fmt.Fprintf(&b, "  source %s: class %s, HTTP %d, %s\n", source, o.Class, o.HTTP, again)
	}
	if len(aliases) > 0 {
		fmt.Fprintf(&b, "  also called %s\n", strings.Join(aliases, ", "))
	}
	_, err := fmt.Fprint(c.env.Stdout, b.String())
	return err
}

// explanation is what explain says about an intent, in both forms.
type explanation struct {
	intent   string
	implied  bool
	in, out  string
	binding  policy.Binding
	rows     []policy.Row
	where    string
	registry *daemon.Loaded
}

func (c *command) explainIntent(loaded *daemon.Loaded, intent, capability string) error {
	reg := loaded.Generation.Registry
	in, ok := reg.Intent(intent)
	if !ok {
		e := contract.Errorf("not-found", "there is no intent :%s", intent).WithHint("\"ferment plugin inspect NAME\" shows what a plugin serves")
		if near := contract.Nearest(intent, reg.Intents()); near != "" {
			e = e.WithHint("did you mean " + near + "?")
		}
		return e
	}
	layer := loaded.Generation.Policies.For(intent)
	effective, err := layer.Resolve()
	if err != nil {
		return err
	}
	demand := policy.Demand{Registry: reg, Intent: intent, CapID: capability, Layer: &effective.Layer}
	x := explanation{
		intent: intent, implied: in.Implied, in: in.In, out: in.Out, where: in.Where,
		binding: demand.Bind(), rows: effective.Explain(), registry: loaded,
	}
	if c.format != formatText {
		return c.value(c.env.Stdout, x.value())
	}
	_, err = fmt.Fprint(c.env.Stdout, x.text())
	return err
}

func (x explanation) value() edn.Value {
	var b edn.MapBuilder
	b.Key("intent", edn.K(x.intent))
	b.Key("implied?", edn.Bool(x.implied))
	b.Key("in-schema", edn.K(x.in))
	b.Key("out-schema", edn.K(x.out))
	if x.where != "" {
		b.Key("where", edn.Text(x.where))
	}
	candidates := make([]edn.Value, len(x.binding.Accepted))
	for i, id := range x.binding.Accepted {
		candidates[i] = edn.MustMap(edn.K("cap/id"), edn.K(id), edn.K("rank"), edn.Int(int64(i+1)), edn.K("tried?"), edn.Bool(i < len(x.binding.Tried)))
	}
	b.Key("candidates", edn.Vector(candidates...))
	b.Key("rejected", policy.RejectionsValue(x.binding.Rejected))
	rows := make([]edn.Value, len(x.rows))
	for i, r := range x.rows {
		rows[i] = edn.MustMap(edn.K("field"), edn.Text(r.Field), edn.K("value"), r.Value, edn.K("from"), edn.Text(originText(r.Origin)))
	}
	b.Key("policy", edn.Vector(rows...))
	return b.Map()
}

func (x explanation) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, ":%s", x.intent)
	switch {
	case x.implied:
		b.WriteString("  implied: no block declares it, a plugin advertises it")
	case x.where != "":
		fmt.Fprintf(&b, "  (%s)", x.where)
	}
	fmt.Fprintf(&b, "\n  in  :%s\n  out :%s\n\ncandidates\n", x.in, x.out)
	reg := x.registry.Generation.Registry
	for i, id := range x.binding.Accepted {
		note := ""
		if i >= len(x.binding.Tried) {
			note = "  not tried: retry { fallback } allows " + counted(len(x.binding.Tried), "candidate")
		}
		served := ""
		if entry, ok := reg.Capability(id); ok {
			served = "plugin " + entry.Plugin
			if entry.Where != "" {
				served += ", " + entry.Where
			}
		}
		fmt.Fprintf(&b, "  %d. %s  (%s)%s\n", i+1, id, served, note)
	}
	if len(x.binding.Accepted) == 0 {
		b.WriteString("  none\n")
	}
	for _, r := range x.binding.Rejected {
		fmt.Fprintf(&b, "  -  %s  passed over: %s", r.Cap, r.Reason)
		if r.Detail != "" {
			fmt.Fprintf(&b, " (%s)", r.Detail)
		}
		b.WriteByte('\n')
	}
	b.WriteString("\npolicy\n")
	width := 0
	for _, r := range x.rows {
		width = max(width, len(r.Field))
	}
	for _, r := range x.rows {
		fmt.Fprintf(&b, "  %-*s  %s  (%s)\n", width, r.Field, r.Value, originText(r.Origin))
	}
	return b.String()
}

// originText says which layer wrote a value, and where it stands.
func originText(o policy.Origin) string {
	if o.Where != "" {
		return o.Source.String() + ", " + o.Where
	}
	return o.Source.String()
}
