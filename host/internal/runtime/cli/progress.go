package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
	"github.com/fermenthq/ferment/host/internal/runtime/daemon"
	"github.com/fermenthq/ferment/sdk/edn"
)

// watcher prints progress to standard error: the events of a run and the transitions of plugins. It
// is safe for concurrent use.
type watcher struct {
	form format
	on   bool

	mu       sync.Mutex
	out      io.Writer
	begun    time.Time
	recorded bool      // times are those of the events, and begun is that of the first one
	at       time.Time // time of the recorded event that is being printed
	done     chan struct{}
	asked    string            // the plugin that is being described
	slow     *time.Timer       // fires when a start is slow
	told     bool              // a slow start was reported
	starting map[string]bool   // plugins
	awaited  map[string]string // the capability of each attempt in progress
	quiet    *time.Timer       // fires after longWait without an event of the run
}

// slowStart is the duration of a start after which it is reported.
const slowStart = 300 * time.Millisecond

// longWait is the time without an event of the run after which a line says what it waits for.
const longWait = 15 * time.Second

// awaits records the capabilities that a run waits for.
func (w *watcher) awaits(e journal.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.quiet == nil {
		w.awaited, w.quiet = map[string]string{}, time.AfterFunc(longWait, w.stillWaiting)
	}
	w.quiet.Reset(longWait)
	attempt := fmt.Sprintf("%s %s %d", e.Path, e.Node, e.Attempt)
	switch {
	case e.Name == "finished":
		w.quiet.Stop()
	case e.Name != "attempt":
	case plain(e.Details.Key("state")) == "started":
		w.awaited[attempt] = e.CapID
	default:
		delete(w.awaited, attempt)
	}
}

func (w *watcher) stillWaiting() {
	w.mu.Lock()
	names := slices.Compact(slices.Sorted(maps.Values(w.awaited)))
	w.quiet.Reset(longWait)
	w.mu.Unlock()
	if len(names) == 0 {
		w.line("still waiting: no call is running; retries and candidates with an open breaker have pauses")
		return
	}
	w.line("still waiting for %s", strings.Join(names, ", "))
}

// tellStarting reports the plugins being started if that takes long, until stop is called.
func (w *watcher) tellStarting() (stop func()) {
	if !w.on || w.form != formatText {
		return func() {}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slow = time.AfterFunc(slowStart, func() {
		w.mu.Lock()
		names, asked, again := slices.Sorted(maps.Keys(w.starting)), w.asked, w.told
		w.told = true
		w.mu.Unlock()
		switch {
		case len(names) > 0:
			w.line("starting %s", strings.Join(names, ", "))
		case asked != "":
			w.line("starting %s for its description", asked)
		case !again:
			w.line("reading the configuration")
		}
	})
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.slow.Stop()
		w.told = false
	}
}

// next restarts the time limit for the next item after one was reported.
func (w *watcher) next() {
	if w.told {
		w.slow.Reset(slowStart)
	}
}

// asking records the plugin that is being described.
func (w *watcher) asking(plugin string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = plugin
	if plugin != "" {
		w.next()
	}
}

// notes records which plugins are being started.
func (w *watcher) notes(t daemon.Transition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.starting == nil {
		w.starting = map[string]bool{}
	}
	switch t.To {
	case "starting", "configuring":
		if !w.starting[t.Plugin] {
			w.next()
		}
		w.starting[t.Plugin] = true
	default:
		delete(w.starting, t.Plugin)
	}
}

func (c *command) newWatcher(mode string) (*watcher, error) {
	w := &watcher{out: c.env.Stderr, begun: time.Now()}
	switch mode {
	case "none":
	case "auto":
		w.on = display.Terminal(c.env.Stderr) && c.format == formatText
	case "text", "json", "edn":
		w.on = true
		if err := w.form.Set(mode); err != nil {
			return nil, err
		}
	default:
		return nil, usagef("--progress %s: expected auto, none, text, json or edn", mode)
	}
	return w, nil
}

// transition reports a change of a plugin's state.
func (w *watcher) transition(t daemon.Transition) {
	if !w.on {
		return
	}
	if w.form == formatText {
		w.notes(t)
		if t.Fault != nil || t.To == "quarantined" {
			w.line("plugin %s is %s: %s", t.Plugin, t.To, t.Cause)
		}
		return
	}
	w.value(t.Value())
}

// notice reports the outcome of a remediation and an opened breaker, because a call may wait for
// it. The remediation itself is an event of the run.
func (w *watcher) notice(n stats.Notice) {
	switch n.Event {
	case stats.EventOpened, stats.EventSwapped, stats.EventFailed, stats.EventQuarantine, stats.EventRecovered:
	default:
		return
	}
	if !w.on {
		return
	}
	if w.form == formatText {
		w.line("%s: %s", n.Event, n.Sentence())
		return
	}
	w.value(n.Details.Merge(edn.MustMap(
		edn.K("event"), edn.K("candidate"), edn.K("what"), edn.K(n.Event), edn.K("plugin"), edn.Text(n.Plugin),
		edn.K("cap/id"), edn.K(n.CapID), edn.K("intent"), edn.K(n.Intent),
		edn.K("at"), edn.Inst(n.At.UTC().Truncate(time.Millisecond)))))
}

// follow prints the events of a run until it ends or close is called.
func (w *watcher) follow(run *act.Run) {
	if !w.on {
		return
	}
	w.done = make(chan struct{})
	go func() {
		defer close(w.done)
		// The cursor ends with the run, so the watch needs no cancellation.
		_ = journal.Watch(context.Background(), run.Follow(), func(e journal.Event) bool {
			w.tell(e)
			return true
		})
	}()
}

// tell prints one event.
func (w *watcher) tell(e journal.Event) {
	switch {
	case !w.on:
	case w.form == formatText:
		w.awaits(e)
		w.setTime(e.At)
		w.text(e)
		w.setTime(time.Time{})
	default:
		w.value(e.Value())
	}
}

// setTime sets the time of the next output, if events have recorded times; zero means now.
func (w *watcher) setTime(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.recorded {
		return
	}
	if w.begun.IsZero() {
		w.begun = at
	}
	w.at = at
}

// close waits until everything is printed.
func (w *watcher) close() {
	if w.done != nil {
		<-w.done
	}
}

func (w *watcher) value(v edn.Value) {
	line := []byte(v.String())
	if w.form == formatJSON {
		var err error
		if line, err = edn.WriteJSON(v); err != nil {
			return // names that collide in JSON; the run itself reports the error
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = w.out.Write(append(line, '\n'))
}

func (w *watcher) line(form string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	since := time.Since(w.begun)
	if !w.at.IsZero() {
		since = w.at.Sub(w.begun)
	}
	_, _ = fmt.Fprintf(w.out, "%7s  %s\n", since.Truncate(time.Millisecond), fmt.Sprintf(form, args...))
}

// text prints the events that people need: calls, failures, and accepted answers.
func (w *watcher) text(e journal.Event) {
	node := e.Node
	if path := pathText(e.Path); path != "" && e.Path.Len() > 1 {
		node = path + " " + node
	}
	d := e.Details
	switch e.Name {
	case "attempt":
		if plain(d.Key("state")) == "started" {
			w.line("%s: asking %s", node, e.CapID)
			return
		}
		switch failure := plain(d.Key("failure/type")); failure {
		case "":
		case "race/lost":
			w.line("%s: attempt %d lost after %s ms: another answer was accepted", node, e.Attempt, d.Key("latency-ms"))
		default:
			w.line("%s: attempt %d failed after %s ms: %s", node, e.Attempt, d.Key("latency-ms"), failure)
		}
	case "gate":
		message, told := d.Key("message").AsString()
		switch gate := plain(d.Key("gate")); {
		case told && !d.Key("pass").Truthy():
			w.line("%s: gate %s failed: %s", node, gate, message)
		case told:
			w.line("%s: %s", node, message)
		case !d.Key("pass").Truthy():
			w.line("%s: gate %s failed", node, gate)
		case !d.Key("score").IsNil():
			w.line("%s: gate %s passed, %s gave %s", node, gate, e.CapID, decimal(d.Key("score")))
		}
	case "quality":
		w.line("%s: %s of %s: %s", node, plain(d.Key("what")), e.CapID, plain(d.Key("why")))
	case "commit":
		if e.CapID != "" {
			w.line("%s: accepted from %s", node, e.CapID)
		}
	case "failed":
		w.line("%s: failed: %s", node, plain(d.Key("message")))
	case "skipped":
		w.line("%s: skipped", node)
	case "reopened":
		if failure, ok := d.Key("failure/type").AsKeyword(); ok {
			w.line("run failed: %s; it goes on at %s", failure, stamp(d.Key("retry-at")))
			return
		}
		w.line("run failed, and goes on: nodes that failed are executed again")
	case "finished":
		w.line("run %s after %s ms", plain(d.Key("status")), d.Key("latency-ms"))
	}
}

// pathText joins a node path with dots.
func pathText(path edn.Value) string {
	var parts []string
	for step := range path.Elems() {
		parts = append(parts, plain(step))
	}
	return strings.Join(parts, ".")
}

// report prints a summary of a finished run for people.
func (c *command) report(records []journal.Record, budget edn.Value) {
	r := journal.NewReport(records)
	c.printf("run %s: %s in %d ms\n", r.Run, r.Status, r.Latency.Milliseconds())
	rows := make([][]string, 0, len(r.Nodes))
	for _, n := range r.Nodes {
		if len(n.Attempts) == 0 && n.State != "skipped" && n.State != "failed" {
			continue
		}
		rows = append(rows, []string{pathText(n.Path) + " " + n.Node, n.Asked, answeredBy(n), gatesOf(n), failedOver(n),
			fmt.Sprintf("%d ms", n.Latency.Milliseconds())})
	}
	if err := display.Table(c.env.Stderr, []string{"node", "asked", "answered", "gates", "failed over", "took"},
		rows); err != nil || budget.IsNil() {
		return
	}
	c.printf("budget: reserved %s, settled %s (%s), refunded %s\n",
		amountsText(budget.Key("reserved")), amountsText(budget.Key("settled")), plain(budget.Key("mark")),
		amountsText(budget.Key("refunded")))
	rows = rows[:0]
	for s := range budget.Key("scopes").Elems() {
		name, resets := scopeText(s)
		rows = append(rows, []string{name, amountsText(s.Key("limit")), amountsText(s.Key("used")),
			amountsText(s.Key("left")), resets})
	}
	_ = display.Table(c.env.Stderr, []string{"scope", "limit", "used", "left", "resets"}, rows) // standard error was closed
}

// amountsText formats amounts as "usd 0.01, attempts 2".
func amountsText(v edn.Value) string {
	var parts []string
	for k, n := range v.Entries() {
		parts = append(parts, plain(k)+" "+strings.TrimSuffix(n.String(), "M"))
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

func answeredBy(n journal.NodeReport) string {
	if n.Answered != "" {
		for _, a := range n.Attempts {
			if a.CapID == n.Answered && a.Enforcement != "" {
				return n.Answered + " (" + a.Enforcement + ")"
			}
		}
		return n.Answered
	}
	if n.Failure != "" {
		return n.State + " (" + n.Failure + ")"
	}
	return n.State
}

func gatesOf(n journal.NodeReport) string {
	var parts []string
	for _, g := range n.Gates {
		parts = append(parts, gateText(g.Gate, g.Score.Value(), g.Applicable, g.Pass))
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}

// gateText returns a verdict as text; score is nil if there is none.
func gateText(gate string, score edn.Value, applicable, pass bool) string {
	if !score.IsNil() {
		gate += " " + decimal(score)
	}
	switch {
	case !applicable:
		return gate + " n/a"
	case pass:
		return gate + " ok"
	default:
		return gate + " FAILED"
	}
}

func failedOver(n journal.NodeReport) string {
	if !n.FailedOver() {
		return "-"
	}
	var parts []string
	for _, a := range n.Attempts {
		if a.Failed() {
			parts = append(parts, fmt.Sprintf("%s: %s after %d ms", a.CapID, a.Failure, a.Latency.Milliseconds()))
		}
	}
	return strings.Join(parts, ", ")
}
