package cli

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/sdk/edn"
)

func (c *command) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "show the state of the daemon of this data directory",
		Long: "status prints the state of the daemon on one screen: whether it is ready and why not, its queue, journal and\n" +
			"isolation, what is weaker than profile prod, the figures of its acts, and its plugins.\n" +
			"Exit codes: 0 ready, 1 not ready, 3 no daemon.",
		Example: "  ferment status\n  ferment status --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			result, err := c.order(cmd.Context(), actionOf("status"))
			if err != nil {
				return err
			}
			if dir, ok := result.Key("data-dir").AsString(); ok {
				if free, err := daemon.FreeSpace(dir); err == nil {
					result = result.AssocKey("data-free-bytes", edn.Int(int64(min(free, math.MaxInt64))))
				}
			}
			if err := c.status(result); err != nil {
				return err
			}
			if !result.Key("ready").Key("ok?").Truthy() {
				return quietError{1}
			}
			return nil
		},
	}
}

func (c *command) status(v edn.Value) error {
	if c.format != formatText {
		return c.value(c.env.Stdout, v)
	}
	return statusScreen(c.env.Stdout, v, time.Now())
}

// screenLines is the number of lines on the screen of status. Plugins without problems that do not
// fit are only counted.
const screenLines = 40

// statusScreen writes the state of a daemon for people.
func statusScreen(w io.Writer, v edn.Value, now time.Time) error {
	var b strings.Builder
	b.WriteString(statusHead(v.Key("ready"), v, now))
	line := func(label, text string) {
		if text != "" {
			b.WriteString(diag.WrapLabeled(fmt.Sprintf("%-10s", label+":"), text) + "\n")
		}
	}
	line("listen", strings.Join(plains(v.Key("listen")), " "))
	line("config", plain(v.Key("config")))
	line("runs", fmt.Sprintf("%s under way%s, %s of configurations in force", v.Key("runs"), waiting(v),
		diag.Counted(number(v.Key("generations")), "generation")))
	if n := number(v.Key("suspended")); n > 0 {
		line("decide", diag.Counted(n, "suspended run")+", see \"ferment runs list --status suspended\"")
	}
	if refused := v.Key("reload-refused"); !refused.IsNil() {
		line("reload", fmt.Sprintf("refused %s ago: %s", age(refused.Key("at"), now), plain(refused.Key("error").Key("message"))))
	}
	if free, ok := v.Key("data-free-bytes").AsInt(); ok && free < daemon.LittleSpace {
		line("disk", fmt.Sprintf("%d MiB free for %s, which is too little", free>>20, plain(v.Key("data-dir"))))
	}
	line("journal", journalLine(v.Key("journal")))
	line("confined", isolationLine(v.Key("isolation")))
	line("weaker", weakerLine(v.Key("ready").Key("weaker-than-prod")))
	line("failures", failureLine(v.Key("kpi").Key("hour-1").Key("failure-taxonomy").Key("by-type")))
	if err := figureTable(&b, v.Key("kpi")); err != nil {
		return err
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	return overviewOfPlugins(w, v.Key("plugins"), screenLines-strings.Count(b.String(), "\n"), now)
}

// statusHead returns whether the daemon is ready, and why not.
func statusHead(ready, v edn.Value, now time.Time) string {
	phase := plain(ready.Key("phase"))
	if phase == "ready" && !ready.Key("ok?").Truthy() {
		phase = "not ready"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, profile %s, version %s, pid %s, up %s\n", phase, plain(ready.Key("profile")),
		plain(v.Key("version")), v.Key("pid"), age(v.Key("started-at"), now))
	for f := range ready.Key("failed").Elems() {
		b.WriteString(diag.WrapLabeled("  because: ", fmt.Sprintf("%s (for %s)", plain(f.Key("why")), age(f.Key("since"), now))) + "\n")
	}
	return b.String()
}

// waiting returns the queue classes with waiting runs.
func waiting(v edn.Value) string {
	var parts []string
	for class := range v.Key("queue").Elems() {
		if number(class.Key("queued")) > 0 {
			parts = append(parts, fmt.Sprintf("%s of class %s", class.Key("queued"), plain(class.Key("class"))))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ", " + strings.Join(parts, " and ") + " waiting"
}

// journalLine describes the journal of a daemon, and the duration of its transactions.
func journalLine(v edn.Value) string {
	driver := plain(v.Key("driver"))
	switch {
	case v.IsNil():
		return ""
	case v.HasKey("error"):
		return "unknown: " + plain(v.Key("error").Key("message"))
	case driver == "memory":
		return "in memory: a stop of the daemon loses it"
	}
	text := fmt.Sprintf("%s, schema %s, %s", driver, v.Key("schema"), diag.Counted(number(v.Key("runs")), "run"))
	text += ", " + byteSize(v.Key("size"))
	if number(v.Key("file-bytes")) > 0 {
		text += " and " + byteSize(v.Key("file-bytes")) + " in files"
	}
	if took := v.Key("commit-us"); number(v.Key("commits")) > 0 {
		text += fmt.Sprintf("; a commit takes %s, at most %s", millis(took.Key("mean")), millis(took.Key("longest")))
	}
	if !v.Key("writable?").Truthy() {
		text += "; not writable"
	}
	if n := number(v.Key("damaged")); n > 0 {
		text += fmt.Sprintf("; %s, see \"ferment runs verify\"", diag.Counted(n, "damaged place"))
	}
	return text
}

// millis returns microseconds as milliseconds.
func millis(v edn.Value) string {
	us, _ := v.AsInt()
	return fmt.Sprintf("%.1f ms", float64(us)/1000)
}

// isolationLine describes which limits of the running plugins the kernel enforces.
func isolationLine(v edn.Value) string {
	if v.IsNil() {
		return ""
	}
	var parts []string
	for word, n := range v.Key("enforcement").Entries() {
		parts = append(parts, fmt.Sprintf("%s %s", n, plain(word)))
	}
	slices.Sort(parts)
	text := "level " + plain(v.Key("level")) + " can be enforced on this machine"
	if len(parts) > 0 {
		text += "; processes: " + strings.Join(parts, ", ")
	}
	if n := number(v.Key("best-effort")); n > 0 {
		text += fmt.Sprintf("; %d with less isolation than is configured", n)
	}
	if plain(v.Key("udp")) == "open" {
		text += "; datagram sockets (UDP) are not confined"
	}
	return text
}

// weakerLine returns the settings that are weaker than those of profile prod.
func weakerLine(list edn.Value) string {
	var parts []string
	for w := range list.Elems() {
		parts = append(parts, fmt.Sprintf("%s is %s (prod: %s)", dotted(w.Key("path")), plain(w.Key("written")), plain(w.Key("prod-written"))))
	}
	return strings.Join(parts, ", ")
}

// manyFailures is the maximum number of failure types on a screen.
const manyFailures = 4

// failureLine returns the most frequent failures of the last hour.
func failureLine(byType edn.Value) string {
	type count struct {
		name string
		n    int
	}
	var all []count
	for name, n := range byType.Entries() {
		all = append(all, count{plain(name), number(n)})
	}
	if len(all) == 0 {
		return ""
	}
	slices.SortFunc(all, func(a, b count) int { return cmp.Or(cmp.Compare(b.n, a.n), strings.Compare(a.name, b.name)) })
	var parts []string
	for _, f := range all[:min(len(all), manyFailures)] {
		parts = append(parts, fmt.Sprintf("%d %s", f.n, f.name))
	}
	if more := len(all) - manyFailures; more > 0 {
		parts = append(parts, diag.Counted(more, "more type"))
	}
	return strings.Join(parts, ", ") + " in the last hour"
}

// figures are the columns of the statistics of a period, by their keys.
var figures = []struct{ head, key string }{
	{"parsed", "parse-rate"}, {"retried", "retry-rate"}, {"fell back", "fallback-rate"}, {"judge ok", "judge-pass-rate"},
	{"must fail", "must-failed-rate"}, {"cache hit", "cache-hit-rate"},
}

// figureTable writes the statistics of the last minutes, the last hour, and since the start.
func figureTable(w io.Writer, kpi edn.Value) error {
	if kpi.IsNil() {
		return nil
	}
	head := []string{"figures", "operations"}
	for _, f := range figures {
		head = append(head, f.head)
	}
	var rows [][]string
	for _, period := range []struct{ name, key string }{{"5 minutes", "minutes-5"}, {"1 hour", "hour-1"}, {"since start", "since-boot"}} {
		of := kpi.Key(period.key)
		row := []string{period.name, of.Key("operations").String()}
		for _, f := range figures {
			row = append(row, percent(of.Key(f.key)))
		}
		rows = append(rows, append(row, dash(strings.TrimSuffix(plain(of.Key("accepted-cost")), "M"))))
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	return display.Table(w, append(head, "usd each"), rows)
}

// percent returns a share as text; a dash if there is none.
func percent(v edn.Value) string {
	r, ok := v.AsNumber()
	if !ok {
		return "-"
	}
	f, _ := r.Float64()
	return strings.TrimSuffix(fmt.Sprintf("%.1f", 100*f), ".0") + " %"
}

// pluginColumns are the columns of the plugins on a screen, with their maximum widths.
var pluginColumns = []struct {
	head   string
	widest int
}{{"plugin", 18}, {"running", 12}, {"state", 14}, {"for", 7}, {"calls", 5}, {"restarts", 8}, {"quality", 12}}

// overviewOfPlugins writes a line for each plugin. If there are more than lines, those that need
// attention come first.
func overviewOfPlugins(w io.Writer, plugins edn.Value, lines int, now time.Time) error {
	all := slices.Collect(plugins.Elems())
	if len(all) == 0 {
		return nil
	}
	const around = 2 // the empty line and the heading
	hidden := 0
	if room := max(lines-around, 1); len(all) > room {
		slices.SortStableFunc(all, func(a, b edn.Value) int { return cmp.Compare(attention(b), attention(a)) })
		hidden = len(all) - max(room-1, 1)
		all = all[:len(all)-hidden]
	}
	rows := make([][]string, len(all))
	for i, p := range all {
		rows[i] = pluginRow(p, now)
	}
	var head []string
	for _, column := range pluginColumns {
		head = append(head, column.head)
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	if err := display.Table(w, append(head, "problem"), inOneLine(rows)); err != nil || hidden == 0 {
		return err
	}
	_, err := fmt.Fprintf(w, "and %s, see \"ferment plugin list\"\n", diag.Counted(hidden, "further plugin"))
	return err
}

// attention returns 1 for a plugin that needs attention, otherwise 0.
func attention(p edn.Value) int {
	if plain(p.Key("condition")) == "disabled" {
		return 0
	}
	for i := range p.Key("instances").Elems() {
		if !calm(i) {
			return 1
		}
	}
	if q := qualityOf(p.Key("quality")); p.Key("instances").Len() == 0 || q != "ok" && q != "-" || drift(p) != "" {
		return 1
	}
	return 0
}

// calm reports whether a process needs no attention.
func calm(instance edn.Value) bool { return plain(instance.Key("state")) == "ready" }

// pluginRow returns a plugin with a summary of its processes. Its state is that of a process that
// needs attention, if there is one; without processes it is the condition.
func pluginRow(p edn.Value, now time.Time) []string {
	var calls, restarts int
	var version, problem string
	var shown edn.Value
	counts := map[string]int{}
	for i := range p.Key("instances").Elems() {
		counts[plain(i.Key("state"))]++
		calls += number(i.Key("in-flight"))
		restarts += number(i.Key("restarts"))
		if shown.IsNil() || calm(shown) && !calm(i) {
			shown = i
		}
		version = cmp.Or(version, plain(i.Key("version")))
		problem = cmp.Or(problem, plain(i.Key("error").Key("message")))
	}
	problem = cmp.Or(problem, drift(p), plain(p.Key("disabled").Key("hint")), plain(p.Key("disabled").Key("message")),
		plain(p.Key("problem").Key("message")))
	name, quality := plain(p.Key("plugin")), qualityOf(p.Key("quality"))
	if shown.IsNil() {
		return []string{name, "-", plain(p.Key("condition")), "-", "-", "-", quality, problem}
	}
	state := plain(shown.Key("state"))
	if n := p.Key("instances").Len(); n > 1 {
		state = fmt.Sprintf("%s %d/%d", state, counts[state], n)
	}
	return []string{name, dash(version), state, age(shown.Key("since"), now), fmt.Sprint(calls), fmt.Sprint(restarts), quality, problem}
}

// drift returns a note if the version of a plugin is not that in the lock file.
func drift(p edn.Value) string {
	locked, installed := plain(p.Key("locked")), plain(p.Key("installed"))
	if locked == "" || installed == "" || locked == installed {
		return ""
	}
	return "the lock file has version " + locked
}

// inOneLine shortens cells so that each row fits on one line.
func inOneLine(rows [][]string) [][]string {
	at := 0
	for i, column := range pluginColumns {
		width := len(column.head)
		for _, row := range rows {
			row[i] = cutTo(row[i], column.widest-1)
			width = max(width, len([]rune(row[i])))
		}
		at += width + 2
	}
	for _, row := range rows {
		text, _, _ := strings.Cut(row[len(row)-1], "\n")
		row[len(row)-1] = cutTo(text, diag.Columns-at-1)
	}
	return rows
}
