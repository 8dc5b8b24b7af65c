package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) runsStatsCommand() *cobra.Command {
	var intent, since string
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "count what the runs of a period did: outcomes, failures, gates, latencies, costs",
		Long: "stats counts the recorded runs of a period by status, intent and error, and their attempts by capability and\n" +
			"outcome, when they ended in the period. p50 and p95 are the times that half and 95 of 100 did not exceed;\n" +
			"above 32 ms they may be a sixteenth too high. A gate passed the share of the answers that it judged. Costs\n" +
			"are those that plugins report, else those of the configured price or of the reservation.\n\n" +
			"Of the rates, parse, retry and fallback count attempts: the share of those whose answer had the form that\n" +
			"was asked for, and how many more per operation went to the same candidate or to another one. An operation\n" +
			"is one execution of a call or tool node.",
		Example: "  ferment runs stats\n  ferment runs stats --since 7d --json\n  ferment runs stats --intent text/respond",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			action, err := statsAction("runs-stats", intent, since)
			if err != nil {
				return err
			}
			return c.orderRuns(cmd.Context(), action, func(v edn.Value, _ bool) error { return c.statsText(v) })
		},
	}
	cmd.Flags().StringVar(&since, "since", "24h", "count what ended since then: a time such as 90m or 7d, or a date")
	cmd.Flags().StringVar(&intent, "intent", "", "only runs of this intent")
	return cmd
}

// statsText prints statistics for people.
func (c *command) statsText(v edn.Value) error {
	runs := v.Key("runs")
	total := number(runs.Key("total"))
	if total == 0 {
		_, err := fmt.Fprintf(c.env.Stdout, "no runs since %s\n", stamp(v.Key("since")))
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s since %s\n", diag.Counted(total, "run"), stamp(v.Key("since")))
	for _, part := range []struct {
		name   string
		counts edn.Value
	}{{"status", runs.Key("by-status")}, {"cache", v.Key("cache")}, {"routing", v.Key("routing")}, {"operations", v.Key("operations")}, {"rates", rates(v.Key("kpi"))}} {
		if part.counts.Len() > 0 {
			b.WriteString(diag.WrapLabeled(fmt.Sprintf("  %-10s  ", part.name), countsText(part.counts)) + "\n")
		}
	}
	if n := number(v.Key("runs/without-records")); n > 0 {
		fmt.Fprintf(&b, "  %s without records, which were removed or are damaged: what they called is not counted\n",
			diag.Counted(n, "run"))
	}
	if _, err := io.WriteString(c.env.Stdout, b.String()); err != nil {
		return err
	}
	var all, by []edn.Value
	for name, t := range v.Key("intents").Entries() {
		all = append(all, edn.Vector(name, t))
	}
	if len(all) > 1 {
		all = append(all, edn.Vector(edn.Text("all"), runs))
	}
	if err := c.statsTable([]string{"intent", "runs", "completed"}, "by-status", "completed", all); err != nil {
		return err
	}
	for name, t := range v.Key("capabilities").Entries() {
		by = append(by, edn.Vector(name, t))
	}
	if err := c.statsTable([]string{"capability", "attempts", "ok"}, "by-outcome", "ok", by); err != nil {
		return err
	}
	var gates, failures [][]string
	for name, g := range v.Key("gates").Entries() {
		gates = append(gates, []string{plain(name), g.Key("verdicts").String(), g.Key("passed").String(), written(g.Key("share"))})
	}
	for name, n := range v.Key("failures").Entries() {
		failures = append(failures, []string{plain(name), n.String()})
	}
	if err := c.section([]string{"gate", "verdicts", "passed", "share"}, gates); err != nil {
		return err
	}
	return c.section([]string{"error", "runs"}, failures)
}

// rates returns the known rates of the KPIs under short names.
func rates(kpi edn.Value) edn.Value {
	var b edn.MapBuilder
	for key, v := range kpi.Entries() {
		name, _ := key.AsKeyword()
		if v.IsNumber() && strings.Contains(name, "-rate") {
			b.Key(strings.Replace(name, "-rate", "", 1), v)
		}
	}
	if cost := kpi.Key("accepted-cost"); cost.IsNumber() {
		b.Key("accepted-cost", cost)
	}
	return b.Map()
}

// statsTable prints counts with their names.
func (c *command) statsTable(head []string, by, good string, tallies []edn.Value) error {
	var rows [][]string
	for _, one := range tallies {
		name, _ := one.Nth(0)
		t, _ := one.Nth(1)
		took := t.Key("latency-ms")
		rows = append(rows, []string{plain(name), t.Key("total").String(), fmt.Sprint(number(t.Key(by).Key(good))),
			dash(tookText(took.Key("p50"))), dash(tookText(took.Key("p95"))), dash(written(t.Key("cost-usd")))})
	}
	return c.section(append(slices.Clone(head), "p50", "p95", "usd"), rows)
}

// section prints a table after an empty line; nothing without rows.
func (c *command) section(head []string, rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(c.env.Stdout); err != nil {
		return err
	}
	return display.Table(c.env.Stdout, head, rows)
}

// countsText returns counts by name.
func countsText(v edn.Value) string {
	var parts []string
	for name, n := range v.Entries() {
		parts = append(parts, written(n)+" "+plain(name))
	}
	return strings.Join(parts, ", ")
}
