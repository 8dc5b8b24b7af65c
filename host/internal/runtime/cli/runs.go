package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/exit"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) runsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "show, watch, answer, compare, count, move, purge or cancel recorded runs of a daemon",
		Long: "runs works on the journal of the data directory: through its daemon, or on the files if none runs; cancel,\n" +
			"resume, answer, watch and replay --mode fill need the daemon. RUN is the id of a run, the beginning of one,\n" +
			"or last. Only acts of a daemon are recorded, not those of act and run without one.",
	}
	cmd.AddCommand(
		c.runsListCommand(), c.runsShowCommand(), c.runsRecordsCommand(), c.runsVerifyCommand(), c.runsReplayCommand(),
		c.runsDiffCommand(), c.runsStatsCommand(),
		c.runsExportCommand(), c.runsImportCommand(), c.runsPinCommand(), c.runsUnpinCommand(), c.runsPurgeCommand(),
		c.runsCancelCommand(), c.runsResumeCommand(), c.runsInterruptsCommand(), c.runsAnswerCommand(), c.runsWatchCommand(),
	)
	return cmd
}

// runsDesk executes actions on runs.
type runsDesk struct {
	do    func(ctx context.Context, action edn.Value) (edn.Value, error)
	there bool // a daemon executes them
	// under sets the configuration of replays, unless a daemon has one.
	under func(*setup.Loaded)
}

// onRuns opens the journal for a command. With create it creates a missing one.
func (c *command) onRuns(ctx context.Context, create bool, do func(runsDesk) error) (err error) {
	there, err := c.reach(ctx)
	if err != nil {
		return err
	}
	if there != nil {
		return do(runsDesk{do: there.Admin, there: true, under: func(*setup.Loaded) {}})
	}
	cfg := c.configured(ctx)
	if cfg.Host.DataDir == "" {
		return c.noDaemon(ctx)
	}
	journal, err := daemon.OpenJournal(ctx, cfg, create)
	if err != nil {
		return err
	}
	defer func() {
		if failed := journal.Close(); err == nil {
			err = failed
		}
	}()
	return do(runsDesk{under: func(l *setup.Loaded) { journal.Loaded = l }, do: func(ctx context.Context, action edn.Value) (edn.Value, error) {
		result, failure := httpapi.DoOnRuns(ctx, journal, action)
		if failure != nil {
			return edn.Nil(), failure
		}
		return result, nil
	}})
}

// orderRuns executes one action on runs and prints its result.
func (c *command) orderRuns(ctx context.Context, action edn.Value, show func(result edn.Value, there bool) error) error {
	return c.onRuns(ctx, false, func(d runsDesk) error {
		result, err := d.do(ctx, action)
		if err != nil {
			return err
		}
		if c.format != formatText {
			return c.value(c.env.Stdout, result)
		}
		return show(result, d.there)
	})
}

func (c *command) runsListCommand() *cobra.Command {
	var status, intent, since, session string
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "list recorded runs, the latest first",
		Long: "list prints the recorded runs. A run without end is queued until its daemon executes it, then running, waiting\n" +
			"while it only waits for answers of people, suspended while it waits for a decision, else open: the next start of\n" +
			"the daemon resumes it.",
		Example: "  ferment runs list\n  ferment runs list --status failed --since 24h\n  ferment runs list --intent text/respond --limit 5 --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			action := actionOf("runs-list", edn.K("limit"), edn.Int(int64(limit)))
			for _, key := range []struct{ name, text string }{{"status", status}, {"intent", intent}} {
				if !cmd.Flags().Changed(key.name) {
					continue
				}
				v, err := edn.Keyword(strings.TrimPrefix(key.text, ":"))
				if err != nil {
					return usagef("--%s %s: expected a name", key.name, key.text)
				}
				action = action.AssocKey(key.name, v)
			}
			if cmd.Flags().Changed("since") {
				at, err := sinceWhen(since, time.Now())
				if err != nil {
					return err
				}
				action = action.AssocKey("since", edn.Inst(at))
			}
			if session != "" {
				action = action.AssocKey("session", edn.Text(session))
			}
			return c.orderRuns(cmd.Context(), action, func(v edn.Value, _ bool) error {
				return c.runsTable(v, action.HasKey("status") || action.HasKey("intent") || action.HasKey("since") || session != "")
			})
		},
	}
	cmd.Flags().StringVar(&status, "status", "", "only runs that are "+strings.Join(runStatuses, ", "))
	cmd.Flags().StringVar(&intent, "intent", "", "only runs of this intent")
	cmd.Flags().StringVar(&session, "session", "", "only runs with the session of this id")
	cmd.Flags().StringVar(&since, "since", "", "only runs accepted since then: a time such as 90m or 7d, or a date")
	cmd.Flags().IntVar(&limit, "limit", 20, "maximum number of runs to list, up to 1000")
	return cmd
}

// runStatuses are the values of --status.
var runStatuses = []string{"open", "queued", "running", "waiting", "suspended", "completed", "failed", "canceled", "expired"}

// sinceWhen parses the value of --since.
func sinceWhen(text string, now time.Time) (time.Time, error) {
	if d, err := parseSpan(text); err == nil {
		return now.Add(-d).UTC(), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, usagef("--since %s: expected a time such as 90m or 7d, or a date such as 2026-11-20", text)
}

// runsTable prints a list of runs. selected reports whether it has only a part of them.
func (c *command) runsTable(v edn.Value, selected bool) error {
	var rows [][]string
	for r := range v.Key("runs").Elems() {
		rows = append(rows, []string{plain(r.Key("run")), plain(r.Key("status")), plain(r.Key("intent")),
			since(r.Key("accepted-at")) + " ago", dash(tookText(r.Key("latency-ms"))), dash(written(r.Key("cost-usd"))),
			dash(written(r.Key("error/type"))), dash(strings.Join(runMarks(r), ", "))})
	}
	if len(rows) == 0 {
		text := noRuns
		if selected {
			text = "no recorded run matches the given options\n"
		}
		_, err := io.WriteString(c.env.Stdout, text)
		return err
	}
	err := display.Table(c.env.Stdout, []string{"run", "status", "intent", "accepted", "took", "usd", "error", "marks"}, rows)
	if err == nil && v.Key("more?").Truthy() {
		_, err = io.WriteString(c.env.Stdout, "there are more; --limit and --since select them\n")
	}
	return err
}

const noRuns = "no run is recorded; \"ferment serve\" records the acts that it executes, such as those of\n" +
	"\"ferment act\" while it serves\n"

// runMarks returns the unusual properties of a recorded run.
func runMarks(r edn.Value) []string {
	var marks []string
	if n := number(r.Key("epoch")); n > 1 {
		marks = append(marks, "resumed")
	}
	for _, m := range []struct{ key, word string }{
		{"imported?", "imported"}, {"pinned?", "pinned"}, {"purged-at", "purged"}, {"removed-at", "removed"},
	} {
		if r.HasKey(m.key) {
			marks = append(marks, m.word)
		}
	}
	return marks
}

// tookText returns milliseconds as text; empty for nil.
func tookText(v edn.Value) string {
	ms, ok := v.AsInt()
	switch d := time.Duration(ms) * time.Millisecond; {
	case !ok:
		return ""
	case d < 10*time.Second:
		return fmt.Sprintf("%d ms", ms)
	default:
		return d.Round(100 * time.Millisecond).String()
	}
}

func (c *command) runsShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show RUN",
		Short: "show one run: its course, costs and errors",
		Long: "show prints who requested a run, how long it took, what it cost, how often it was resumed, its nodes with\n" +
			"their attempts and gates, and its error with the next step. As JSON and EDN it has the transcript and the\n" +
			"response too.",
		Example: "  ferment runs show last\n  ferment runs show last --edn",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			action := actionOf("runs-show", edn.K("run"), edn.Text(args[0]),
				edn.K("brief?"), edn.Bool(c.format == formatText))
			return c.orderRuns(cmd.Context(), action, func(v edn.Value, there bool) error {
				_, err := io.WriteString(c.env.Stdout, display.Shown(c.env.Stdout, c.runText(v, there)))
				return err
			})
		},
	}
}

// runText returns a run as text for people.
func (c *command) runText(v edn.Value, there bool) string {
	var b strings.Builder
	run := v.Key("run")
	id, status := plain(run.Key("run")), plain(run.Key("status"))
	fmt.Fprintf(&b, "%s: %s\n", id, status)
	line := func(name, form string, args ...any) {
		fmt.Fprintf(&b, "  %-11s "+form+"\n", append([]any{name}, args...)...)
	}
	line("intent", "%s", plain(run.Key("intent")))
	line("caller", "%s", plain(run.Key("principal")))
	line("accepted", "%s ago, at %s", since(run.Key("accepted-at")), stamp(run.Key("accepted-at")))
	if took := tookText(run.Key("latency-ms")); took != "" {
		line("took", "%s", took)
	} else {
		line("deadline", "%s", stamp(v.Key("deadline-at")))
	}
	line("cost", "%s", dollars(run.Key("cost-usd")))
	line("records", "%s", run.Key("records"))
	if of := written(v.Key("cache/run")); of != "" {
		line("cache", "the answer is that of %s", of)
	}
	if marks := runMarks(run); len(marks) > 0 {
		line("marks", "%s", strings.Join(marks, ", "))
	}
	for e := range v.Key("epochs").Elems() {
		if why := e.Key("why"); !why.IsNil() {
			after := "after a " + plain(why) + " of its host"
			switch plain(why) {
			case "decision":
				after = "by decision"
			case "lease":
				after = "by another host than before"
			case "key":
				after = "by its idempotency key"
			case "retry":
				after = "after it failed"
			}
			if by, ok := e.Key("by").AsString(); ok {
				after += " of " + by
			}
			line("resumed", "%s ago, at %s, %s (epoch %s)", since(e.Key("at")), stamp(e.Key("at")), after, e.Key("epoch"))
		}
	}
	for e := range v.Key("people").Elems() {
		node, by := plain(e.Key("node")), plain(e.Key("by"))
		switch what := plain(e.Key("what")); what {
		case "answered":
			line("answered", "%s ago: node %s, by %s", since(e.Key("at")), node, by)
		case "default", "deadline":
			line("answered", "%s ago: node %s, by its deadline, %s", since(e.Key("at")), node,
				map[string]string{"default": "with the default", "deadline": "without an answer"}[what])
		default:
			line("decided", "%s ago: node %s, %s by %s", since(e.Key("at")), node, what, by)
		}
	}
	if cancel := v.Key("cancel"); !cancel.IsNil() {
		by := plain(cancel.Key("by"))
		if why := plain(cancel.Key("why")); why != "" {
			by += ": " + why
		}
		line("canceled", "%s ago by %s", since(cancel.Key("at")), by)
	}
	b.WriteByte('\n')
	nodesText(&b, v.Key("nodes"))
	b.WriteString(c.runEnd(v, id, status, there))
	return b.String()
}

// runEnd returns how a run ended, and the next command.
func (c *command) runEnd(v edn.Value, id, status string, there bool) string {
	run := v.Key("run")
	switch {
	case run.HasKey("removed-at"):
		why := "because of store.retain"
		if plain(run.Key("error/type")) == "journal/damaged" {
			why = "when the journal was repaired: none of them was readable"
		}
		return fmt.Sprintf("its records were removed %s ago, %s\n", since(run.Key("removed-at")), why)
	case v.HasKey("error"):
		e := onCommandLine(contract.ErrorFromValue(v.Key("error"), contract.SourceHost))
		end := "\n" + diag.WrapError(e.Text(contract.SourceText{Brief: !c.verbose})) + "\n"
		if v.Key("resumable?").Truthy() {
			end += fmt.Sprintf("\nto continue it, executing its failed nodes again:\n  ferment runs resume %s\n", id)
		}
		return end
	case status == "suspended":
		return c.suspendedText(v.Key("suspended"), id)
	case v.HasKey("interrupts") && (status == "running" || status == "waiting" || !hostOf(v.Key("interrupts")).IsNil()):
		return "\n" + interruptsText(v.Key("interrupts"), id, false)
	case status == "running" || status == "waiting":
		return fmt.Sprintf("\nit is running; \"ferment runs cancel %s\" cancels it\n", id)
	case status == "open" && there:
		return "\nit is open, and the daemon does not execute it: another host does, or the log of the daemon says why not\n"
	case status == "open":
		return "\nit is open: its daemon ended before it did; \"ferment serve\" resumes it\n"
	case run.HasKey("purged-at"):
		return "\nits values were purged; records and hashes are kept\n"
	}
	return fmt.Sprintf("\n\"ferment runs show %s --edn\" prints its transcript and response\n", id)
}

// suspendedText returns what a suspended run waits for.
func (c *command) suspendedText(v edn.Value, id string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nit is suspended, since %s ago, with :%s\n", since(v.Key("at")), plain(v.Key("why")))
	decide, once := "", ""
	if v.HasKey("error") {
		e := onCommandLine(contract.ErrorFromValue(v.Key("error"), contract.SourceHost))
		b.WriteString("what is left of it does not fit the configuration of the daemon:\n" +
			diag.WrapError(e.Text(contract.SourceText{Brief: !c.verbose})) + "\n")
		once = ", once the configuration has what is missing"
	}
	for q := range v.Key("open").Elems() {
		fmt.Fprintf(&b, "  node %s at %s: did attempt %s of :%s do its work?\n", plain(q.Key("node")), q.Key("path"), q.Key("attempt"),
			plain(q.Key("cap/id")))
		decide += " \\\n    --decide " + plain(q.Key("node")) + "=retry"
	}
	fmt.Fprintf(&b, "\nto continue it%s:\n  ferment runs resume %s%s\n", once, id, decide)
	if decide != "" {
		b.WriteString("skip-as-done and fail are the other decisions. ")
	}
	fmt.Fprintf(&b, "To end it:\n  ferment runs cancel %s\n", id)
	return b.String()
}

// shownNodes is the maximum number of nodes in the text of a run, in addition to those that were
// not committed.
const shownNodes = 40

// nodesText writes the nodes of a run as a tree, without those that only computed a value.
func nodesText(b *strings.Builder, all edn.Value) {
	nodes := slices.SortedStableFunc(all.Elems(), func(x, y edn.Value) int { return journal.ComparePaths(x.Key("path"), y.Key("path")) })
	left, n := 0, 0
	for i, node := range nodes {
		state, depth := plain(node.Key("state")), node.Key("path").Len()
		parent := i+1 < len(nodes) && nodes[i+1].Key("path").Len() > depth
		switch n++; {
		case state != "committed":
		case node.Key("attempts").Len() == 0 && !parent:
			n--
			continue
		case n > shownNodes:
			left++
			continue
		}
		nodeText(b, node)
	}
	if left > 0 {
		fmt.Fprintf(b, "not shown: %s, committed\n", diag.Counted(left, "more node"))
	}
}

func nodeText(b *strings.Builder, node edn.Value) {
	indent := strings.Repeat("  ", max(0, node.Key("path").Len()-1))
	put := func(more, form string, args ...any) {
		start := indent + more
		b.WriteString(start + diag.Wrap(fmt.Sprintf(form, args...), len(start), len(indent)+8) + "\n")
	}
	state := plain(node.Key("state"))
	if by := written(node.Key("answered")); by != "" {
		state += " from " + by
	}
	if why := written(node.Key("failure/type")); why != "" {
		state += " (" + why + ")"
	}
	asked := strings.TrimSpace(written(node.Key("op")) + " " + written(node.Key("asked")))
	if ms := node.Key("latency-ms"); number(ms) > 0 {
		state += ", " + tookText(ms)
	}
	put("", "%s %s  %s: %s", pathText(node.Key("path")), plain(node.Key("node")), asked, state)
	for a := range node.Key("attempts").Elems() {
		outcome := written(a.Key("outcome"))
		if outcome == "" {
			outcome = "no end is recorded"
		}
		parts := []string{outcome}
		if took := tookText(a.Key("latency-ms")); took != "" {
			parts = append(parts, took)
		}
		if a.HasKey("cost-usd") {
			parts = append(parts, dollars(a.Key("cost-usd")))
		}
		if why := written(a.Key("failure/type")); why != "" {
			if message := written(a.Key("message")); message != "" {
				why += ": " + cutTo(message, 200)
			}
			parts = append(parts, why)
		}
		put("    ", "attempt %s  %s: %s", a.Key("attempt"), written(a.Key("cap/id")), strings.Join(parts, ", "))
	}
	var gates []string
	for g := range node.Key("gates").Elems() {
		gates = append(gates, gateText(plain(g.Key("gate")), g.Key("score"), !g.HasKey("applicable?"), g.Key("pass").Truthy()))
	}
	if len(gates) > 0 {
		put("    ", "gates  %s", strings.Join(gates, ", "))
	}
}

func dollars(v edn.Value) string {
	if v.IsNil() {
		return "unknown"
	}
	return written(v) + " usd"
}

// stamp returns an instant to the second; "?" for nil.
func stamp(v edn.Value) string {
	at, ok := v.AsInst()
	if !ok {
		return "?"
	}
	return at.UTC().Format(time.RFC3339)
}

func (c *command) runsRecordsCommand() *cobra.Command {
	var values bool
	var after int
	cmd := &cobra.Command{
		Use:   "records RUN",
		Short: "print the records of a run, one per line",
		Long: "records prints the records of a run as EDN, or as JSON with --json, one per line and in order. A record names\n" +
			"values by their hashes; with --values they are added under :values, except those above 16 MiB.",
		Example: "  ferment runs records last\n  ferment runs records last --after 3 --values --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if after < 0 {
				return usagef("--after %d: expected the number of a record", after)
			}
			return c.onRuns(cmd.Context(), false, func(d runsDesk) error {
				for from, run := after, args[0]; ; {
					page, err := d.do(cmd.Context(), actionOf("runs-records", edn.K("run"), edn.Text(run),
						edn.K("after"), edn.Int(int64(from)), edn.K("values?"), edn.Bool(values)))
					if err != nil {
						return err
					}
					if err := c.lines(page.Key("records")); err != nil || !page.Key("more?").Truthy() {
						return err
					}
					from, run = number(page.Key("last")), plain(page.Key("run"))
				}
			})
		},
	}
	cmd.Flags().BoolVar(&values, "values", false, "add the values that the records name")
	cmd.Flags().IntVar(&after, "after", 0, "only records after this number")
	return cmd
}

// lines prints values one per line: as JSON with --json, otherwise as EDN.
func (c *command) lines(values edn.Value) error {
	for v := range values.Elems() {
		text := v.String()
		if c.format == formatJSON {
			b, err := edn.WriteJSON(v)
			if err != nil {
				return err
			}
			text = string(b)
		}
		if _, err := fmt.Fprintln(c.env.Stdout, display.Shown(c.env.Stdout, text)); err != nil {
			return err
		}
	}
	return nil
}

func (c *command) runsVerifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify [RUN]",
		Short: "compare recorded runs with their hashes",
		Long: "verify reads every record and value of one run, or of all, and compares them with the chain of hashes that\n" +
			"was written with them: it finds a changed, missing or reordered record and a changed or missing value. With all\n" +
			"runs it also reads all sessions and checks the pages of their tables.\n" +
			"Exit codes: 0 no damage, 3 damage.",
		Example: "  ferment runs verify\n  ferment runs verify last --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			action := actionOf("runs-verify")
			if len(args) > 0 {
				action = action.AssocKey("run", edn.Text(args[0]))
			}
			return c.onRuns(cmd.Context(), false, func(d runsDesk) error {
				result, err := d.do(cmd.Context(), action)
				if err == nil {
					err = c.verified(result)
				}
				return err
			})
		},
	}
}

// verified prints the result of a verification. Damage has the exit code of its error type.
func (c *command) verified(v edn.Value) error {
	damaged := v.Key("damaged")
	what := diag.Counted(number(v.Key("runs")), "run")
	if n := number(v.Key("sessions")); n > 0 {
		what += " and " + diag.Counted(n, "session")
	}
	err := c.done(v, fmt.Sprintf("%s verified, %s damaged", what, countOrNone(damaged.Len())))
	if err != nil || damaged.Len() == 0 {
		return err
	}
	if c.format == formatText {
		var rows [][]string
		for d := range damaged.Elems() {
			rows = append(rows, []string{dash(written(d.Key("run"))), dash(written(d.Key("seq"))), plain(d.Key("what")),
				dash(written(d.Key("hash")))})
		}
		if err := display.Table(c.env.Stdout, []string{"run", "record", "damage", "value"}, rows); err != nil {
			return err
		}
		c.printf("%s\n", repairHint)
	}
	return quietError{exit.Code(contract.Errorf("journal/damaged", "damage was found"))}
}

func countOrNone(n int) string {
	if n == 0 {
		return "none"
	}
	return strconv.Itoa(n)
}
