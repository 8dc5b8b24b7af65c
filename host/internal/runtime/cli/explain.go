package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) explainCommand() *cobra.Command {
	var capability string
	var local, streamed bool
	cmd := &cobra.Command{
		Use:   "explain INTENT | explain error TYPE",
		Short: "show the candidates for an intent and why, or explain an error type",
		Long: "explain shows the candidates for an intent in order with the figures that determine it, the reasons why others\n" +
			"are rejected, the gates and the limits, each with the place in the configuration that decides it. No plugin is\n" +
			"called. Statistics of candidates are available from a running daemon.",
		Example: "  ferment explain chess/best-move\n  ferment explain chess/best-move --capability chess/embedded\n  ferment explain error runtime/crashed",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "error" && len(args) == 2 {
				return c.explainError(strings.TrimPrefix(args[1], ":"))
			}
			if args[0] == "error" && len(args) == 1 {
				return usagef("explain error needs a type, such as runtime/crashed")
			}
			if len(args) > 1 {
				return usagef("explain takes one intent, or the word error and a type")
			}
			return c.explainIntent(cmd.Context(), local, streamed, strings.TrimPrefix(args[0], ":"),
				strings.TrimPrefix(capability, ":"))
		},
	}
	cmd.Flags().StringVar(&capability, "capability", "", "explain as if the request pinned this capability")
	cmd.Flags().BoolVar(&streamed, "stream", false,
		"explain as if the answer were streamed: the order latency-first then uses the time to the first token")
	localFlag(cmd, &local)
	return cmd
}

func (c *command) explainIntent(ctx context.Context, local, streamed bool, intent, capability string) error {
	v, err := c.explained(ctx, local, streamed, intent, capability)
	switch {
	case err != nil:
		return err
	case c.format != formatText:
		return c.value(c.env.Stdout, v)
	}
	_, err = fmt.Fprint(c.env.Stdout, explanationText(v))
	return err
}

// explained asks the daemon, which has statistics of candidates; without one it reads the
// configuration.
func (c *command) explained(ctx context.Context, local, streamed bool, intent, capability string) (edn.Value, error) {
	name, err := edn.Keyword(intent)
	if err != nil {
		return edn.Nil(), usagef("expected an intent NS/NAME, such as chess/best-move")
	}
	question := actionOf("explain", edn.K("intent"), name)
	if capability != "" {
		pinned, err := edn.Keyword(capability)
		if err != nil {
			return edn.Nil(), usagef("expected a capability NS/NAME, such as chess/embedded")
		}
		question = question.AssocKey("capability", pinned)
	}
	if streamed {
		question = question.AssocKey("stream", edn.Bool(true))
	}
	v, done, err := c.ask(ctx, local, question)
	if done {
		return v, err
	}
	loaded, err := c.load(ctx, c.options())
	if err != nil {
		return edn.Nil(), err
	}
	return loaded.Explain(intent, capability, streamed, loaded.Bind)
}

func (c *command) explainError(name string) error {
	typ := contract.ResolveAlias(name)
	row, ok := contract.Lookup(typ)
	if !ok {
		e := contract.Errorf("not-found", "there is no error type :%s", name).
			WithHint("write the type as NS/NAME, such as runtime/crashed")
		return e.DidYouMean(contract.NearestType(name))
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
		b.WriteString(diag.WrapLabeled("  next: ", row.Hint) + "\n")
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

// explanationText returns an explanation as text for people.
func explanationText(v edn.Value) string {
	var b strings.Builder
	fmt.Fprintf(&b, ":%s", plain(v.Key("intent")))
	switch {
	case v.Key("implied?").Truthy():
		b.WriteString("  implied: no block declares it, a plugin advertises it")
	case v.HasKey("where"):
		fmt.Fprintf(&b, "  (%s)", plain(v.Key("where")))
	}
	fmt.Fprintf(&b, "\n  in  :%s\n  out :%s\n\ncandidates, in the order %s\n", plain(v.Key("in-schema")),
		plain(v.Key("out-schema")), orderText(v))
	tried := 0
	for c := range v.Key("candidates").Elems() {
		if c.Key("tried?").Truthy() {
			tried++
		}
	}
	for c := range v.Key("candidates").Elems() {
		note := ""
		if !c.Key("tried?").Truthy() {
			note = "  not tried: retry { fallback } allows " + diag.Counted(tried, "candidate")
		}
		fmt.Fprintf(&b, "  %s. %s  (%s)%s\n     %s\n", c.Key("rank"), plain(c.Key("cap/id")), servedBy(c), note,
			figuresText(c.Key("figures")))
		if role := c.Key("role"); !role.IsNil() && !(role.Equal(v.Key("prompt").Key("role")) && c.Key("role/rule").Equal(v.Key("prompt").Key("role/rule"))) {
			fmt.Fprintf(&b, "     role %s (%s)\n", plain(role), plain(c.Key("role/rule")))
		}
		if model := c.Key("model"); !model.IsNil() {
			fmt.Fprintf(&b, "     model %s (%s)\n", plain(model), plain(c.Key("model/rule")))
		}
	}
	if v.Key("candidates").Len() == 0 {
		b.WriteString("  none\n")
	}
	for r := range v.Key("rejected").Elems() {
		fmt.Fprintf(&b, "  -  %s  rejected: %s", plain(r.Key("cap/id")), plain(r.Key("reason")))
		if r.HasKey("detail") {
			fmt.Fprintf(&b, " (%s)", plain(r.Key("detail")))
		}
		b.WriteByte('\n')
		if r.HasKey("message") {
			b.WriteString(diag.WrapLabeled("     ", plain(r.Key("message"))) + "\n")
		}
		if r.HasKey("hint") {
			b.WriteString(diag.WrapLabeled("     hint: ", plain(r.Key("hint"))) + "\n")
		}
		if r.HasKey("figures") {
			fmt.Fprintf(&b, "     %s\n", figuresText(r.Key("figures")))
		}
	}
	b.WriteString("\npolicy\n")
	width := 0
	for r := range v.Key("policy").Elems() {
		width = max(width, len(plain(r.Key("field"))))
	}
	for r := range v.Key("policy").Elems() {
		fmt.Fprintf(&b, "  %-*s  %s  (%s)\n", width, plain(r.Key("field")), r.Key("value"), plain(r.Key("from")))
	}
	if p := v.Key("prompt"); !p.IsNil() {
		fmt.Fprintf(&b, "\nprompt of a language model, role %s (%s)\n", plain(p.Key("role")), plain(p.Key("role/rule")))
		for l := range p.Key("layers").Elems() {
			fmt.Fprintf(&b, "  %s  (%s)\n", plain(l.Key("name")), plain(l.Key("where")))
		}
	}
	nodes := v.Key("plan").Key("nodes").Len()
	if nodes > 0 {
		fmt.Fprintf(&b, "\nan act is a plan of %s, and each call of the intent within it is bound as above\n", diag.Counted(nodes, "node"))
	}
	b.WriteString(routingText(v.Key("routing"), nodes > 0))
	if why, ok := v.Key("stream").Key("why").AsString(); ok {
		fmt.Fprintf(&b, "  text is shown once the gates have passed: %s\n", why)
	}
	return b.String()
}

// routingText returns whether a router is called in each profile, and the rule for that. Acts with a
// plan are not routed.
func routingText(profiles edn.Value, planned bool) string {
	if profiles.Len() == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nrouting by profile")
	if planned {
		b.WriteString(", only of an act that names a capability: no router is asked for the plan")
	}
	b.WriteByte('\n')
	width := 0
	for p := range profiles.Elems() {
		width = max(width, len(plain(p.Key("profile"))))
	}
	for p := range profiles.Elems() {
		what := "no router is asked"
		if p.Key("meta?").Truthy() {
			what = "asks :" + plain(p.Key("intent"))
			if p.HasKey("cap/id") {
				what += ", first :" + plain(p.Key("cap/id"))
			}
			what += ", " + plain(p.Key("on-error"))
			if p.HasKey("force?") {
				what += ", force"
			}
		}
		fmt.Fprintf(&b, "  %-*s  %s  (%s)", width, plain(p.Key("profile")), what, plain(p.Key("rule")))
		if p.HasKey("usual?") {
			b.WriteString("  used unless the request names another")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func servedBy(c edn.Value) string {
	served := "the host"
	if plugin := plain(c.Key("plugin")); plugin != "" {
		served = "plugin " + plugin
	}
	if c.HasKey("where") {
		served += ", " + plain(c.Key("where"))
	}
	return served
}

// figuresText returns the values that determine the order.
func figuresText(f edn.Value) string {
	parts := []string{"no answer judged yet"}
	if n := number(f.Key("samples")); n > 0 {
		parts = []string{fmt.Sprintf("%s of the last %d answers passed (%s)", f.Key("passes"), n,
			decimal(f.Key("rate")))}
	}
	parts = append(parts, "quality "+decimal(f.Key("quality")))
	if cost := f.Key("cost-usd"); !cost.IsNil() {
		parts = append(parts, decimal(cost)+" usd")
	}
	if ms := f.Key("latency-ms"); !ms.IsNil() {
		parts = append(parts, ms.String()+" ms")
	}
	parts = append(parts, speedText(f)...)
	parts = append(parts, conditionText(f)...)
	parts = append(parts, "breaker "+plain(f.Key("breaker")))
	if at := f.Key("reopens-at"); !at.IsNil() {
		parts = append(parts, "again in "+until(at))
	}
	if f.Key("degraded?").Truthy() {
		parts = append(parts, "degraded")
	}
	if f.HasKey("stead") {
		parts = append(parts, plain(f.Key("stead"))+" serves in its place")
	}
	return strings.Join(parts, ", ")
}

// orderText returns the order, and the calls that it applies to.
func orderText(v edn.Value) string {
	if v.Key("streamed?").Truthy() {
		return plain(v.Key("ordering")) + " of a streamed answer"
	}
	return plain(v.Key("ordering"))
}

// speedText returns the speed of streamed text.
func speedText(f edn.Value) []string {
	var parts []string
	if ms := f.Key("first-token-ms"); !ms.IsNil() {
		parts = append(parts, "first token after "+ms.String()+" ms")
	}
	if rate := f.Key("tokens-per-second"); !rate.IsNil() {
		parts = append(parts, decimal(rate)+" tokens/s")
	}
	return parts
}

// conditionText returns the health and load of a capability.
func conditionText(f edn.Value) []string {
	var parts []string
	if f.HasKey("warmth") {
		parts = append(parts, plain(f.Key("warmth")))
	}
	if f.Key("troubled?").Truthy() {
		parts = append(parts, "degraded")
	}
	if n := number(f.Key("in-flight")); n > 0 {
		busy := diag.Counted(n, "call") + " in flight"
		if f.HasKey("places") {
			busy += fmt.Sprintf(" at %s", diag.Counted(number(f.Key("places")), "place"))
		}
		parts = append(parts, busy)
	}
	if n := number(f.Key("queued")); n > 0 {
		parts = append(parts, fmt.Sprintf("%d queued", n))
	}
	if n := number(f.Key("deaths")); n > 0 {
		parts = append(parts, diag.Counted(n, "recent crash"))
	}
	return parts
}

// decimal formats a number for people.
func decimal(v edn.Value) string {
	s := strings.TrimSuffix(v.String(), "M")
	if strings.Contains(s, ".") && !strings.ContainsAny(s, "eE") {
		s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	}
	return s
}
