package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/exit"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) runsDiffCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "diff A B",
		Short: "compare two recorded runs node by node",
		Long: "diff aligns the nodes of two runs by their place in the plan, and compares request, plan, candidates, picks,\n" +
			"outcomes, verdicts, values and cost. Ids, times, latencies and the configuration are shown and do not count as\n" +
			"differences. A run that is not finished is compared as far as it is recorded. As JSON and EDN it has all facts\n" +
			"of both runs, also of nodes that are equal.\n" +
			"Exit codes: 0 no difference, 1 differences.",
		Example: "  ferment runs diff last last\n  ferment runs diff last last --json",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.onRuns(cmd.Context(), false, func(d runsDesk) error {
				v, err := d.do(cmd.Context(), actionOf("runs-diff", edn.K("a"), edn.Text(args[0]), edn.K("b"), edn.Text(args[1])))
				if err != nil {
					return err
				}
				return c.compared(v)
			})
		},
	}
}

// unlessEqual returns the exit code for a comparison.
func unlessEqual(diff edn.Value) error {
	if !diff.Key("equal?").Truthy() {
		return quietError{exit.Negative}
	}
	return nil
}

// compared prints a comparison of two runs.
func (c *command) compared(v edn.Value) error {
	if c.format != formatText {
		if err := c.value(c.env.Stdout, v); err != nil {
			return err
		}
		return unlessEqual(v)
	}
	var b strings.Builder
	if err := runFacts(&b, v); err != nil {
		return err
	}
	b.WriteByte('\n')
	nodeDiffs(&b, v.Key("nodes"))
	b.WriteString(diag.Wrap(verdictOfDiff(v), 0, 0) + "\n")
	if _, err := io.WriteString(c.env.Stdout, display.Shown(c.env.Stdout, b.String())); err != nil {
		return err
	}
	return unlessEqual(v)
}

// runFacts writes the properties of two runs as a whole.
func runFacts(b *strings.Builder, v edn.Value) error {
	var rows [][]string
	add := func(name string, form func(run edn.Value) string) {
		x, y := form(v.Key("a")), form(v.Key("b"))
		if x != "" || y != "" {
			rows = append(rows, []string{name, dash(x), dash(y)})
		}
	}
	key := func(name string) func(edn.Value) string {
		return func(run edn.Value) string { return written(run.Key(name)) }
	}
	hash := func(name string) func(edn.Value) string {
		return func(run edn.Value) string { return shortHash(run.Key(name)) }
	}
	add("intent", key("intent"))
	add("accepted", func(run edn.Value) string { return since(run.Key("accepted-at")) + " ago" })
	add("config", hash("config"))
	add("request", hash("request"))
	add("plan", hash("plan"))
	add("status", func(run edn.Value) string {
		return strings.TrimSpace(written(run.Key("status")) + " " + written(run.Key("failure/type")))
	})
	add("value", hash("value"))
	add("took", func(run edn.Value) string { return tookText(run.Key("latency-ms")) })
	add("cost", func(run edn.Value) string { return dollars(run.Key("cost-usd")) })
	return display.Table(b, []string{"", "A " + plain(v.Key("a").Key("run")), "B " + plain(v.Key("b").Key("run"))}, rows)
}

// nodeDiffs writes the nodes of two runs: the differences, and one line for each equal node that
// made a call.
func nodeDiffs(b *strings.Builder, nodes edn.Value) {
	left, n := 0, 0
	for node := range nodes.Elems() {
		x, y, differs := node.Key("a"), node.Key("b"), node.Key("differs")
		switch n++; {
		case x.IsNil():
			nodeHead(b, node, y, "only in B")
		case y.IsNil():
			nodeHead(b, node, x, "only in A")
		case differs.Len() > 0:
			nodeHead(b, node, x, "differs in "+strings.Join(plains(differs), ", ")+"; "+bothTook(x, y))
			for aspect := range differs.Elems() {
				aspectLines(b, plain(aspect), x, y)
			}
		case x.Key("attempts").Len() == 0:
			n--
		case n > shownNodes:
			left++
		default:
			nodeHead(b, node, x, "equal; "+bothTook(x, y))
		}
	}
	if left > 0 {
		fmt.Fprintf(b, "not shown: %s, equal\n", diag.Counted(left, "more node"))
	}
	if n > 0 {
		b.WriteByte('\n')
	}
}

func nodeHead(b *strings.Builder, node, side edn.Value, what string) {
	asked := strings.TrimSpace(written(side.Key("op")) + " " + written(side.Key("asked")))
	line := fmt.Sprintf("%s %s  %s: %s", pathText(node.Key("path")), written(side.Key("node")), asked, what)
	b.WriteString(diag.Wrap(line, 0, 8) + "\n")
}

func bothTook(x, y edn.Value) string {
	return tookText(x.Key("latency-ms")) + " and " + tookText(y.Key("latency-ms"))
}

// aspectLines returns one aspect of a node in both runs.
func aspectLines(b *strings.Builder, aspect string, x, y edn.Value) {
	for i, side := range []edn.Value{x, y} {
		name := aspect
		if i > 0 {
			name = ""
		}
		label := fmt.Sprintf("    %-11s %c  ", name, "AB"[i])
		b.WriteString(diag.WrapLabeled(label, dash(aspectText(aspect, side))) + "\n")
	}
}

// aspectText formats an aspect of a node in one run.
func aspectText(aspect string, side edn.Value) string {
	var parts []string
	put := func(texts ...string) {
		if text := strings.Join(strings.Fields(strings.Join(texts, " ")), " "); text != "" {
			parts = append(parts, text)
		}
	}
	switch aspect {
	case "plan":
		put(written(side.Key("node")), written(side.Key("op")), written(side.Key("asked")), shortHash(side.Key("plan")))
	case "candidates":
		put(strings.Join(plains(side.Key("candidates")), ", "), "by", written(side.Key("policy")), written(side.Key("strategy")))
		for r := range side.Key("rejected").Elems() {
			put("without", plain(r.Key("cap/id")), written(r.Key("reason")), written(r.Key("why")))
		}
	case "pick":
		put(written(side.Key("cap/id")), written(side.Key("cap/version")))
	case "outcome":
		put(written(side.Key("state")), written(side.Key("failure/type")))
		for a := range side.Key("attempts").Elems() {
			put(plain(a.Key("cap/id")), written(a.Key("entrant")), written(a.Key("outcome")), written(a.Key("failure/type")))
		}
	case "verdicts":
		for g := range side.Key("verdicts").Elems() {
			text := gateText(plain(g.Key("gate")), g.Key("score"), !g.HasKey("applicable?"), g.Key("pass").Truthy())
			if n := number(g.Key("attempt")); n > 0 && side.Key("attempts").Len() > 1 {
				text += fmt.Sprintf(" (attempt %d)", n)
			}
			put(text)
		}
		if score := side.Key("score"); !score.IsNil() {
			put("score", written(score))
		}
	case "value":
		put(shortHash(side.Key("value")))
	case "cost":
		put(dollars(side.Key("cost-usd")))
	}
	return strings.Join(parts, ", ")
}

// verdictOfDiff returns a sentence about whether two runs differ, and in what.
func verdictOfDiff(v edn.Value) string {
	text := "nothing differs"
	if !v.Key("equal?").Truthy() {
		what, nodes := plains(v.Key("differs")), 0
		for node := range v.Key("nodes").Elems() {
			if node.Key("differs").Len() > 0 {
				nodes++
			}
		}
		if nodes > 0 {
			what = append(what, diag.Counted(nodes, "node"))
		}
		text = "they differ in " + strings.Join(what, ", ")
	}
	if !v.Key("values?").Truthy() {
		text += "; values that were purged are not compared"
	}
	for _, run := range []string{"a", "b"} {
		if status := written(v.Key(run).Key("status")); status == "open" || status == "suspended" {
			text += fmt.Sprintf("; %s is %s and compared as far as it is recorded", strings.ToUpper(run), status)
		}
	}
	return text
}

// shortHash returns the beginning of a hash; empty for nil.
func shortHash(v edn.Value) string {
	s, _ := v.AsString()
	return s[:min(len(s), len("b3:")+8)]
}
