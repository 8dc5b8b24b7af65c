package cli_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// sequence is one plan over scripted processes: the answers of each
// capability, the expected calls, and the outcome of the run. Its transcript
// is a golden file.
type sequence struct {
	name string
	// a, b, c and judge are the steps of :t/a, :t/b, :t/c and of the checker,
	// each in a process of its own.
	a, b, c, judge []string
	// meta is further metadata of :t/a, plugin further attributes of its plugin
	// block, and schema the schema of answers.
	meta, plugin, schema string
	// dispatch and node are further keys of the call in the default plan of
	// one call; plan replaces that plan.
	dispatch, node, plan string
	// costs are the prices of the capabilities, by name, and hcl is further
	// configuration.
	costs map[string]string
	hcl   string
	// stream is the streaming policy.
	stream string
	// policy is the text of the default dispatch block, quality that of the
	// quality block of the intent.
	policy, quality string

	asked string // the calls, in order
	out   string // the expected output
	fails string // or the expected error
	exit  int
	loose bool // concurrent calls: their order is not determined
}

// source returns the plan; by default one call with the candidates a, b and c.
func (s sequence) source() string {
	if s.plan != "" {
		return s.plan
	}
	input := ":input {:q 1} "
	if strings.Contains(s.node, ":input") {
		input = ""
	}
	return fmt.Sprintf("{:nodes [{:op :call :id \"call\" :intent :demo/answer %s:as :x %s\n  :dispatch {:candidates %s %s}}\n {:op :emit :input :x}]}\n", input, s.node, s.candidates(), s.dispatch)
}

// steps returns the answers of the plugins that the sequence has.
func (s sequence) steps() map[string][]string {
	all := map[string][]string{"a": s.a, "b": s.b, "c": s.c, "judge": s.judge}
	maps.DeleteFunc(all, func(_ string, steps []string) bool { return len(steps) == 0 })
	return all
}

func (s sequence) candidates() string {
	var ids []string
	for _, name := range slices.Sorted(maps.Keys(s.steps())) {
		if name != "judge" {
			ids = append(ids, ":t/"+name)
		}
	}
	return "[" + strings.Join(ids, " ") + "]"
}

func (s sequence) world(t testing.TB) *world {
	files := []string{"plan.edn", s.source(), "ferment.hcl", s.config()}
	for name, steps := range s.steps() {
		intent, meta := ":demo/answer", ":out-schema :"+cmp.Or(s.schema, "res/any")
		if name == "judge" {
			intent, meta = ":demo/verify", ":out-schema :res/any"
		}
		if name == "a" {
			meta += " " + s.meta
		}
		if cost := s.costs[name]; cost != "" {
			meta += " :cost {:usd " + cost + "}"
		}
		files = append(files, name+".edn", script(":t/"+name, intent, ":in-schema :req/any "+meta, steps...))
	}
	return newWorld(t, files...)
}

func (s sequence) config() string {
	out := cmp.Or(s.schema, "res/any")
	const quick = "restart {\n  backoff = \"5ms\"\n  jitter  = 0\n}"
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.steps())) {
		switch {
		case name == "a" && strings.Contains(s.plugin, "restart"):
			b.WriteString(scripted(name, s.plugin))
		case name == "a":
			b.WriteString(scripted(name, s.plugin, quick))
		default:
			b.WriteString(scripted(name, quick))
		}
	}
	b.WriteString(`
check "good" {
  condition = try(result.good, false)
  message   = "wants :good"
}
check "nice" {
  condition = try(result.nice, false)
  message   = "wants :nice"
}
intent "demo/answer" {
  in           = "req/any"
  out          = "` + out + `"
  result_types = ["value", "plan"]
` + s.streams() + s.block("  quality", s.quality) + `}
` + s.block(`dispatch "default"`, s.policy))
	if len(s.judge) > 0 {
		b.WriteString(`
check "verified" {
  intent = "demo/verify"
}
check "verified-soon" {
  intent  = "demo/verify"
  timeout = "100ms"
}
intent "demo/verify" {
  in  = "req/any"
  out = "res/any"
}
`)
	}
	b.WriteString(s.hcl)
	return b.String()
}

// streams returns the attribute of the intent.
func (s sequence) streams() string {
	if s.stream == "" {
		return ""
	}
	return "  stream       = \"" + s.stream + "\"\n"
}

// block returns a block with that text, if there is any.
func (s sequence) block(header, text string) string {
	if text == "" {
		return ""
	}
	return header + " {\n" + indent([]string{text}) + "}\n"
}

// oneByOne returns a plan of n calls in sequence. All but the last may fail.
func oneByOne(n int, node, dispatch string) string {
	var b strings.Builder
	b.WriteString("{:mode :strict :nodes [")
	for i := range n {
		more := dispatch
		if i < n-1 {
			more += " :allow-failure? true"
		}
		fmt.Fprintf(&b, "{:op :call :id \"call%d\" :intent :demo/answer :input {:q %d} :as :x%d %s :dispatch {%s}}\n ", i+1, i+1, i+1, node, more)
	}
	fmt.Fprintf(&b, "{:op :emit :input :x%d}]}\n", n)
	return b.String()
}

// unwanted is a candidate that must not be called.
var unwanted = []string{`{:error {:type :test/unwanted}}`}

func fails(typ string) string { return fmt.Sprintf("{:error {:type :%s}}", typ) }

// slowly delays the restart of a plugin for longer than a test lasts.
const slowly = "restart {\n  backoff     = \"5m\"\n  max_backoff = \"5m\"\n}"

const (
	sigkill = `{:crash :sigkill}`
	hang    = `{:hang true}`
)

// The steps of the sequence table of evaluation.md section 7 without race,
// hedge, tournament or repair, with real processes (EVAL-075).
var cascades = []sequence{
	{
		name: "cascade-same-1-fallback-2", dispatch: ":retry {:same-cap-max 1 :fallback-max 2}",
		a: []string{fails("provider/unavailable")}, b: []string{fails("runtime/invoke-failed")}, c: []string{`{:value {:n 3}}`},
		asked: "a1 a2 b3 c4", out: `{:n 3}`,
	},
	{
		name: "cascade-same-1-fallback-1-gates", dispatch: ":retry {:same-cap-max 1 :fallback-max 1}", node: ":done {:must #{:good}}",
		a: []string{`{:value {:n 1}}`, `{:value {:n 2}}`}, b: []string{`{:value {:n 3}}`, `{:value {:good true}}`},
		asked: "a1 a2 b3 b4", out: `{:good true}`,
	},
	{
		name: "cascade-same-0-fallback-0", a: []string{fails("provider/unavailable")},
		b: unwanted, asked: "a1", fails: "provider/unavailable", exit: 1,
	},
	{
		name: "crash-respawned", dispatch: ":retry {:same-cap-max 1 :fallback-max 1}",
		a: []string{sigkill, sigkill}, b: []string{`{:value {:n 2}}`},
		asked: "a1 a2 b3", out: `{:n 2}`,
	},
	{
		name: "crash-quarantined", dispatch: ":retry {:same-cap-max 1 :fallback-max 1}", plugin: "restart {\n  max = 0\n}",
		a: []string{sigkill}, b: []string{`{:value {:n 2}}`},
		asked: "a1 b2", out: `{:n 2}`,
	},
}

// The steps of the sequence table with repairs.
var repairs = []sequence{
	{
		name: "repair-exhausted-switches", dispatch: ":retry {:same-cap-max 1 :fallback-max 1} :repair {:max 1}", node: ":done {:must #{:good}}", meta: ":repairs? true",
		a: []string{fails("provider/unavailable"), `{:value {:n 1}}`, `{:value {:n 2}}`}, b: []string{`{:value {:good true}}`},
		asked: "a1 a2 a3 b4", out: `{:good true}`,
	},
	{
		name: "repair-helps", dispatch: ":repair {:max 3}", node: ":done {:must #{:good :nice}}", meta: ":repairs? true",
		a:     []string{`{:value {:n 1}}`, `{:value {:good true}}`, `{:value {:good true :nice true}}`},
		asked: "a1 a2 a3", out: `{:good true :nice true}`,
	},
	{
		name: "repair-same-answer-stops", dispatch: ":repair {:max 8}", node: ":done {:must #{:good}}", meta: ":repairs? true",
		a:     []string{`{:value {:n 1}}`},
		asked: "a1 a2", fails: "repair/exhausted", exit: 1,
	},
}

// The steps of the sequence table with concurrent candidates. Calls and winner
// do not depend on the speed of the machine; the candidate that never answers
// is canceled, because the run ends.
var strategies = []sequence{
	{
		name: "race-width-2-fallback-2", loose: true, dispatch: ":strategy :race :race {:width 2} :retry {:fallback-max 2}", node: ":done {:must #{:good}}",
		a: []string{`{:value {:good true} :delay-ms 15000}`}, b: []string{`{:value {:n 2}}`}, c: []string{hang},
		asked: "a1 b2 c3", out: `{:good true}`,
	},
	{
		name: "race-first-is-wrong", loose: true, dispatch: ":strategy :race", node: ":done {:must #{:good}}",
		a: []string{`{:stream ["first" "bytes"]}`}, b: []string{`{:value {:good true} :delay-ms 300}`}, asked: "a1 b2", out: `{:good true}`,
	},
	{
		name: "race-crash", loose: true, dispatch: ":strategy :race :race {:width 3} :retry {:fallback-max 2}",
		a: []string{sigkill}, b: []string{fails("provider/unavailable")}, c: []string{`{:value {:n 3} :delay-ms 300}`}, asked: "a1 b2 c3", out: `{:n 3}`,
	},
	{
		name: "hedge-silence", loose: true, dispatch: ":strategy :hedge :hedge {:after-ms 150}",
		a: []string{hang}, b: []string{`{:value {:n 2}}`}, c: unwanted, asked: "a1 b2", out: `{:n 2}`,
	},
	{
		name: "hedge-fails-early", dispatch: ":strategy :hedge :hedge {:after-ms 60000} :retry {:fallback-max 1}",
		a: []string{fails("provider/unavailable")}, b: []string{`{:value {:n 2}}`}, c: unwanted, asked: "a1 b2", out: `{:n 2}`,
	},
	{
		name: "tournament-best-wins", loose: true, dispatch: ":strategy :tournament :tournament {:width 3}", node: ":done {:must #{:good} :should #{:nice}}",
		a: []string{`{:value {:good true}}`}, b: []string{`{:value {:nice true}}`}, c: []string{`{:value {:good true :nice true} :delay-ms 100}`},
		asked: "a1 b2 c3", out: `{:good true :nice true}`,
	},
	{
		name: "tournament-then-cascade", loose: true, dispatch: ":strategy :tournament :retry {:fallback-max 2}", node: ":done {:must #{:good}}",
		a: []string{`{:value {:n 1}}`}, b: []string{`{:value {:n 2}}`}, c: []string{`{:value {:good true}}`},
		asked: "a1 b2 c3", out: `{:good true}`,
	},
}

// The rows of the attempt table (ATT-008, ATT-009), with real processes.
var rows = []sequence{
	{
		name: "row-1-final-class", dispatch: ":retry {:same-cap-max 1 :fallback-max 2}",
		a: []string{fails("policy/blocked")}, b: unwanted, asked: "a1", fails: "policy/blocked", exit: 4,
	},
	{
		name: "row-1-deadline-spent", dispatch: ":retry {:same-cap-max 1 :fallback-max 2}", node: ":deadline-ms 120",
		a: []string{hang}, b: []string{hang}, asked: "a1 b2", fails: "timeout/hard", exit: 7,
	},
	{
		name: "row-2-once-outcome-unknown", dispatch: ":retry {:same-cap-max 1 :fallback-max 2}",
		plugin: slowly,
		meta:   ":recovery-rules [[[:q] 1 :once]]",
		a:      []string{sigkill}, b: unwanted, asked: "a1", fails: "effects/outcome-unknown", exit: 6,
	},
	{
		name: "row-2-once-gate-failed", dispatch: ":retry {:same-cap-max 1 :fallback-max 2}", node: ":done {:must #{:good}}",
		meta: ":recovery-rules [[[:q] 1 :once]]",
		a:    []string{`{:value {:n 1}}`}, b: unwanted, asked: "a1", fails: "eval/must-failed", exit: 1,
	},
	{
		name: "row-2-once-definite-failure-switches", dispatch: ":retry {:fallback-max 1}",
		meta: ":recovery-rules [[[:q] 1 :once]]",
		a:    []string{fails("runtime/invoke-failed")}, b: []string{`{:value {:n 2}}`}, asked: "a1 b2", out: `{:n 2}`,
	},
	{
		name: "row-2-idempotent-keeps-its-key", dispatch: ":retry {:same-cap-max 1 :fallback-max 1}",
		meta: ":recovery-rules [[[:q] 1 :idempotent]]",
		a:    []string{sigkill, `{:value {:n 1}}`}, b: unwanted, asked: "a1 a2", out: `{:n 1}`,
	},
	{
		name: "row-2-idempotent-never-switches", dispatch: ":retry {:fallback-max 1}",
		plugin: slowly,
		meta:   ":recovery-rules [[[:q] 1 :idempotent]]",
		a:      []string{sigkill}, b: unwanted, asked: "a1", fails: "runtime/crashed", exit: 1,
	},
	{
		name: "row-4-not-in-switch-on", dispatch: ":retry {:same-cap-max 1 :fallback-max 2} :switch-on #{:provider/unavailable}",
		a: []string{fails("runtime/invoke-failed")}, b: unwanted, asked: "a1", fails: "runtime/invoke-failed", exit: 1,
	},
	{
		name: "row-4-empty-switch-on", dispatch: ":retry {:same-cap-max 1 :fallback-max 2} :switch-on #{}",
		a: []string{fails("provider/unavailable")}, b: unwanted, asked: "a1", fails: "provider/unavailable", exit: 1,
	},
	{
		name: "row-4-class-stop", dispatch: ":retry {:same-cap-max 1 :fallback-max 2}",
		a: []string{fails("input/invalid")}, b: unwanted, asked: "a1", fails: "input/invalid", exit: 1,
	},
	{
		name: "row-7-class-stop-by-name", dispatch: ":retry {:same-cap-max 1 :fallback-max 2} :switch-on #{:input/invalid}",
		a: []string{fails("input/invalid")}, b: []string{`{:value {:n 2}}`}, asked: "a1 b2", out: `{:n 2}`,
	},
	{
		name: "row-7-namespace-and-class", dispatch: ":retry {:fallback-max 2} :switch-on #{:provider/* :class/switch}",
		a: []string{fails("provider/empty")}, b: []string{fails("test/own-type")}, c: []string{`{:value {:n 3}}`},
		asked: "a1 b2 c3", out: `{:n 3}`,
	},
	{
		name: "row-5-retry", dispatch: ":retry {:same-cap-max 2}",
		a: []string{fails("provider/unavailable"), `{:raw "{:result {:type :nonsense :out 1}}"}`, `{:value {:n 1}}`}, b: unwanted, asked: "a1 a2 a3", out: `{:n 1}`,
	},
	{
		name: "row-5-deterministic-is-not-retried", dispatch: ":retry {:same-cap-max 2 :fallback-max 1}", node: ":done {:must #{:good}}",
		meta: ":deterministic? true",
		a:    []string{`{:value {:n 1}}`}, b: []string{`{:value {:good true}}`}, asked: "a1 b2", out: `{:good true}`,
	},
	{
		name: "row-6-crash-in-a-stream", dispatch: ":retry {:same-cap-max 1 :fallback-max 1}",
		a: []string{`{:stream ["half" "way"] :chunk-ms 5 :crash :sigkill}`, `{:stream ["all" " of it"]}`}, b: unwanted, asked: "a1 a2", out: `{:text "all of it"}`,
	},
	{
		name: "row-6-panic", dispatch: ":retry {:same-cap-max 1}",
		a: []string{`{:crash :panic}`, `{:value {:n 1}}`}, asked: "a1 a2", out: `{:n 1}`,
	},
	{
		name: "row-6-exit", dispatch: ":retry {:same-cap-max 1}",
		a: []string{`{:crash :exit-3}`, `{:value {:n 1}}`}, asked: "a1 a2", out: `{:n 1}`,
	},
	{
		name: "row-6-too-late-is-row-7", dispatch: ":retry {:same-cap-max 1 :fallback-max 1}", node: ":deadline-ms 5000",
		plugin: slowly,
		a:      []string{sigkill}, b: []string{`{:value {:n 2}}`}, asked: "a1 b2", out: `{:n 2}`,
	},
	{
		name: "row-7-timeout-of-the-capability", dispatch: ":retry {:same-cap-max 1 :fallback-max 1}", meta: ":limits {:timeout-ms 80}",
		a: []string{hang}, b: []string{`{:value {:n 2}}`}, asked: "a1 b2", out: `{:n 2}`,
	},
	{
		name: "row-7-malformed-frame", dispatch: ":retry {:fallback-max 1}",
		a: []string{`{:raw "{:result {:type"}`}, b: []string{`{:value {:n 2}}`}, asked: "a1 b2", out: `{:n 2}`,
	},
	{
		name: "row-8-all-fail", dispatch: ":retry {:same-cap-max 1 :fallback-max 2}",
		a: []string{fails("provider/unavailable")}, b: []string{sigkill, fails("provider/empty")}, c: []string{fails("runtime/invoke-failed")},
		asked: "a1 a2 b3 b4 c5", fails: "runtime/invoke-failed", exit: 1,
	},
}

const (
	ab    = ":candidates [:t/a :t/b] :retry {:fallback-max 1}"
	onlyA = ":candidates [:t/a]"
	good  = ":done {:must #{:good}}"
	wrong = `{:value {:n 1}}`
	right = `{:value {:good true}}`
	quick = "min_pass_rate = 0.6\nmin_samples = 5\nwindow = 5"
)

// Breakers and quality windows across calls (BRK-001 to BRK-010, LLM-030,
// BIND-009, EVAL-075).
var circuits = []sequence{
	{
		name: "breaker-leaves-alone", plan: oneByOne(4, "", ab), policy: "breaker {\n  min_samples = 2\n  base = \"5m\"\n}",
		a: []string{fails("provider/unavailable")}, b: []string{`{:value {:n 2}}`},
		asked: "a1 b2 a1 b2 b1 b1", out: `{:n 2}`,
	},
	{
		name: "breaker-waits-for-the-probe", plan: oneByOne(3, "", onlyA), policy: "breaker {\n  min_samples = 2\n  base = \"150ms\"\n}",
		a:     []string{fails("provider/unavailable"), fails("provider/unavailable"), `{:value {:n 1}}`},
		asked: "a1 a1 a1", out: `{:n 1}`,
	},
	{
		name: "breaker-all-open-says-when", plan: oneByOne(3, ":deadline-ms 2000", onlyA), policy: "breaker {\n  min_samples = 2\n  base = \"5m\"\n}",
		a: []string{fails("provider/unavailable")}, asked: "a1 a1", fails: "breaker/open", exit: 3,
	},
	{
		name: "breaker-retry-after-is-a-floor", plan: oneByOne(3, ":deadline-ms 2000", onlyA), policy: "breaker {\n  min_samples = 2\n  base = \"1ms\"\n}",
		a: []string{`{:error {:type :provider/rate-limited :details {:retry-after-ms 600000}}}`}, asked: "a1 a1", fails: "breaker/open", exit: 3,
	},
	{
		name: "breaker-trips-at-once", plan: oneByOne(2, "", ab),
		a: []string{fails("provider/quota-exhausted")}, b: []string{`{:value {:n 2}}`}, asked: "a1 b2 b1", out: `{:n 2}`,
	},
	{
		name: "quality-swap-to", plan: oneByOne(6, good, onlyA), quality: quick + "\nswap_to = \"t/b\"",
		a: []string{wrong}, b: []string{right}, asked: "a1 a1 a1 a1 a1 swap(a) b1", out: `{:good true}`,
	},
	{
		name: "quality-quarantine", plan: oneByOne(6, good, ab), quality: quick + "\naction = \"quarantine\"",
		a: []string{wrong}, b: []string{right}, asked: "a1 b2 a1 b2 a1 b2 a1 b2 a1 eject(a) b2 b1", out: `{:good true}`,
	},
	{
		name: "quality-cap-reached", plan: oneByOne(7, good, onlyA), quality: quick + "\naction = \"quarantine\"",
		a: []string{wrong, wrong, wrong, wrong, wrong, wrong, right}, asked: "a1 a1 a1 a1 a1 cap-reached(a) a1 a1", out: `{:good true}`,
	},
	{
		name: "quality-restart", plan: oneByOne(6, good, onlyA), quality: quick + "\naction = \"restart\"",
		a: []string{wrong, wrong, wrong, wrong, wrong, right}, asked: "a1 a1 a1 a1 a1 restart(a) a1", out: `{:good true}`,
	},
	{
		name: "quality-repaired-counts-once", plan: oneByOne(6, good, onlyA+" :repair {:max 1}"), quality: quick, meta: ":repairs? true",
		a: []string{wrong, right, wrong, right, wrong, right, wrong, right, wrong, right, right}, asked: "a1 a2 a1 a2 a1 a2 a1 a2 a1 a2 a1", out: `{:good true}`,
	},
	{
		name: "quality-errors-are-no-samples", plan: oneByOne(7, good, onlyA), quality: quick,
		a: []string{fails("provider/empty"), fails("provider/empty"), fails("provider/empty"), wrong, wrong, right, right}, policy: "breaker {\n  min_samples = 20\n}",
		asked: "a1 a1 a1 a1 a1 a1 a1", out: `{:good true}`,
	},
	{
		name: "quality-aware-order", plan: oneByOne(4, good, ":candidates [:t/a :t/b] :retry {:fallback-max 1} :policy :quality-aware"),
		a: []string{wrong}, b: []string{right}, asked: "a1 b2 b1 b1 b1", out: `{:good true}`,
	},
}

// Scenarios for authors of plans: gates, allowed failures, nested plans, maps,
// branches, skipped nodes, schemas (GATE-001 to GATE-010, EVAL-010, EVAL-030,
// IR-002, IR-006, SCHED-001).
var scenarios = []sequence{
	{
		name: "must-failed", node: ":done {:must #{:good :verified}}",
		a: []string{`{:value {:n 1}}`}, judge: []string{`{:value {:ok? true}}`}, asked: "a1", fails: "eval/must-failed", exit: 1,
	},
	{
		name: "low-score", dispatch: ":retry {:fallback-max 1}", node: ":done {:should #{:good :nice} :score-min 0.8}",
		a: []string{`{:value {:good true}}`}, b: []string{`{:value {:good true :nice true}}`}, asked: "a1 b2", out: `{:good true :nice true}`,
	},
	{
		name: "low-score-fails", node: ":done {:should #{:good :nice} :score-min 0.8}",
		a: []string{`{:value {:good true}}`}, asked: "a1", fails: "eval/low-score", exit: 1,
	},
	{
		name: "capability-check", dispatch: ":retry {:fallback-max 1}", node: ":done {:must #{:verified}}",
		a: []string{`{:value {:n 1}}`}, b: []string{`{:value {:n 2}}`},
		judge: []string{`{:value {:ok? false :findings [{:message "no" :path [:n]}]}}`, `{:value {:ok? true}}`},
		asked: "a1 b2", out: `{:n 2}`,
	},
	{
		name: "check-that-never-answers", node: ":done {:must #{:verified-soon}}",
		a: []string{`{:value {:n 1}}`}, judge: []string{hang}, asked: "a1", fails: "eval/must-failed", exit: 1,
	},
	{
		name: "check-that-answers-nothing-known", node: ":done {:must #{:verified}}",
		a: []string{`{:value {:n 1}}`}, judge: []string{`{:value {:perhaps true}}`}, asked: "a1", fails: "eval/must-failed", exit: 1,
	},
	{
		name: "check-whose-process-dies", node: ":done {:must #{:verified}}",
		a: []string{`{:value {:n 1}}`}, judge: []string{sigkill, `{:value {:ok? true}}`}, asked: "a1", out: `{:n 1}`,
	},
	{
		name: "schema-retry", dispatch: ":retry {:same-cap-max 1}", schema: "res/text",
		a: []string{`{:value {:n 1}}`, `{:value {:text "now it fits"}}`}, asked: "a1 a2", out: `{:text "now it fits"}`,
	},
	{
		name: "allow-failure",
		plan: `{:nodes [{:op :call :id "first" :intent :demo/answer :input {:q 1} :as :x :dispatch {:candidates [:t/a] :allow-failure? true}}
 {:op :call :id "second" :when {:failed? :x} :intent :demo/answer :input {:why {:slot/path [:x :failure/type]}} :as :y :dispatch {:candidates [:t/b]}}
 {:op :emit :input {:first {:slot/path [:x :failure/type]} :second {:slot/path [:y :n]}}}]}`,
		a: []string{fails("input/invalid")}, b: []string{`{:value {:n 2}}`}, asked: "a1 b1", out: `{:first :input/invalid :second 2}`,
	},
	{
		name: "skipped-nodes",
		plan: `{:nodes [{:op :let :value false :as :wanted}
 {:op :call :id "skipped" :when :wanted :intent :demo/answer :input {:q 1} :as :x :dispatch {:candidates [:t/a]}}
 {:op :call :id "asked" :when {:not {:present? :x}} :intent :demo/answer :input {:x {:slot/id :x :slot/default "none"}} :as :y :dispatch {:candidates [:t/b]}}
 {:op :emit :input {:x {:slot/id :x :slot/default "none"} :y {:slot/path [:y :n]}}}]}`,
		a: []string{`{:value {:n 1}}`}, b: []string{`{:value {:n 2}}`}, asked: "b1", out: `{:x "none" :y 2}`,
	},
	{
		name: "nested-plan", meta: ":can-produce #{:value :plan}",
		a: []string{`{:plan {:nodes [{:op :call :id "inner" :intent :demo/answer :input {:word {:slot/id :word}} :as :i :dispatch {:candidates [:t/b]}}
                                     {:op :emit :input {:final :i}}]} :bindings {:word "given"}}`},
		b: []string{`{:template {:text "inner {{input.word}}"}}`}, asked: "a1 b1", out: `{:final {:text "inner given"}}`,
	},
	{
		name: "nested-plan-gated-and-switched", meta: ":can-produce #{:value :plan}",
		dispatch: ":retry {:fallback-max 1}", node: ":done {:must #{:good}}",
		a: []string{`{:plan {:nodes [{:op :emit :input {:good false}}]}}`}, b: []string{`{:value {:good true}}`}, asked: "a1 b2", out: `{:good true}`,
	},
	{
		name: "nested-plan-fails-over", meta: ":can-produce #{:value :plan}", dispatch: ":retry {:fallback-max 1}",
		a: []string{`{:plan {:nodes [{:op :call :id "inner" :intent :demo/answer :input {:q 2} :as :i :dispatch {:candidates [:t/c]}} {:op :emit :input :i}]}}`},
		b: []string{`{:value {:n 2}}`}, c: []string{fails("input/invalid")}, asked: "a1 c1 b2", out: `{:n 2}`,
	},
	{
		name: "nested-plan-invalid", meta: ":can-produce #{:value :plan}", dispatch: ":retry {:same-cap-max 1}",
		a:     []string{`{:plan {:nodes [{:op :call :intent :demo/anser :input {}}]}}`, `{:plan {:nodes [{:op :emit :input {:n 1}}]}}`},
		asked: "a1 a2", out: `{:n 1}`,
	},
	{
		name: "map-fail",
		plan: `{:nodes [{:op :map :over [1 2 3] :item :n :as :ys :max-parallel 1
   :body [{:op :call :id "item" :intent :demo/answer :input {:n {:slot/id :n}} :as :r :dispatch {:candidates [:t/a]}} {:op :emit :input {:slot/path [:r :n]}}]}
 {:op :emit :input {:slot/path [:ys :out]}}]}`,
		a: []string{`{:value {:n 10}}`, fails("input/invalid"), `{:value {:n 30}}`}, asked: "a1 a1", fails: "input/invalid", exit: 1,
	},
	{
		name: "map-keep",
		plan: `{:nodes [{:op :map :over [1 2 3] :item :n :as :ys :max-parallel 1 :on-item-error :keep
   :body [{:op :call :id "item" :intent :demo/answer :input {:n {:slot/id :n}} :as :r :dispatch {:candidates [:t/a]}} {:op :emit :input {:slot/path [:r :n]}}]}
 {:op :emit :input {:first {:slot/path [:ys :out 0]} :second {:slot/path [:ys :out 1 :failure/type]} :third {:slot/path [:ys :out 2]}}}]}`,
		a: []string{`{:value {:n 10}}`, fails("input/invalid"), `{:value {:n 30}}`}, asked: "a1 a1 a1", out: `{:first 10 :second :input/invalid :third 30}`,
	},
	{
		name: "map-side-by-side", loose: true,
		plan: `{:nodes [{:op :map :over [3 1 2] :item :n :as :ys :max-parallel 3
   :body [{:op :call :id "item" :intent :demo/answer :input {:n {:slot/id :n}} :as :r :dispatch {:candidates [:t/a]}} {:op :emit :input {:slot/path [:r :text]}}]}
 {:op :emit :input {:all {:slot/path [:ys :out]}}}]}`,
		a: []string{`{:template {:text "item {{input.n}}"} :delay-ms 10}`}, asked: "a1 a1 a1", out: `{:all ["item 3" "item 1" "item 2"]}`,
	},
	{
		// One crash fails all calls of the process, and each continues
		// independently.
		name: "one-crash-cuts-six-calls", loose: true, plugin: slowly,
		plan: `{:nodes [{:op :map :over [1 2 3 4 5 6] :item :n :as :ys :max-parallel 6
   :body [{:op :call :id "item" :intent :demo/answer :input {:n {:slot/id :n}} :as :r :dispatch {:candidates [:t/a :t/b] :retry {:fallback-max 1}}} {:op :emit :input {:slot/path [:r :text]}}]}
 {:op :emit :input {:all {:slot/path [:ys :out]}}}]}`,
		a: []string{hang, hang, hang, hang, hang, `{:crash :sigkill :delay-ms 2000}`}, b: []string{`{:template {:text "item {{input.n}}"}}`},
		asked: "a1 a1 a1 a1 a1 a1 b2 b2 b2 b2 b2 b2", out: `{:all ["item 1" "item 2" "item 3" "item 4" "item 5" "item 6"]}`,
	},
	{
		name: "parallel-branches", loose: true,
		plan: `{:nodes [{:op :call :id "a" :intent :demo/answer :input {:q "A"} :as :x :dispatch {:candidates [:t/a]}}
 {:op :call :id "b" :intent :demo/answer :input {:q "B"} :as :y :dispatch {:candidates [:t/b]}}
 {:op :call :id "c" :intent :demo/answer :input {:x {:slot/path [:x :n]} :y {:slot/path [:y :n]}} :as :z :dispatch {:candidates [:t/c]}}
 {:op :emit :input :z}]}`,
		a: []string{`{:value {:n 1} :delay-ms 30}`}, b: []string{`{:value {:n 2} :delay-ms 10}`}, c: []string{`{:template {:sum "{{input.x}}+{{input.y}}"}}`},
		asked: "a1 b1 c1", out: `{:sum "1+2"}`,
	},
	{
		name: "slot-unresolved",
		plan: `{:nodes [{:op :call :id "first" :intent :demo/answer :input {:q 1} :as :x :dispatch {:candidates [:t/a]}}
 {:op :call :id "second" :intent :demo/answer :input {:n {:slot/path [:x :m]}} :as :y :dispatch {:candidates [:t/b]}}
 {:op :emit :input :y}]}`,
		a: []string{`{:value {:n 1}}`}, b: []string{`{:value {:n 2}}`}, asked: "a1", fails: "slot/unresolved", exit: 1,
	},
}

// Capabilities that receive handles of others (ENV-012, ENV-018, IR-012,
// IR-014, CNV-014, IR-010): permitted requests, their nodes in the run, and
// the errors for a hostile plugin.
var handles = []sequence{
	{
		name: "handle-is-asked", node: given("b"),
		a: []string{`{:ask {:handle [:model] :intent :demo/answer :input {:text "of {{input.q}}"}}}`}, b: []string{`{:template {:text "asked {{input.text}}"}}`},
		asked: "a1 b1", out: `{:text "asked of 1"}`,
	},
	{
		name: "handle-from-a-slot-without-intent",
		plan: `{:nodes [{:op :let :value {:cap/ref :t/b} :as :best}
 {:op :call :id "call" :intent :demo/answer :input {:model {:slot/id :best}} :as :x :dispatch {:candidates [:t/a]}}
 {:op :call :id "again" :intent :demo/answer :input {:n {:slot/path [:x :n]}} :as :y :dispatch {:candidates [{:slot/id :best}]}}
 {:op :emit :input :y}]}`,
		a: []string{`{:ask {:handle [:model]}}`}, b: []string{`{:value {:n 1}}`, `{:value {:n 2}}`}, asked: "a1 b1 b1", out: `{:n 2}`,
	},
	{
		name: "handle-passed-on", node: ":input {:model {:cap/ref :t/b} :other {:cap/ref :t/c}}",
		a: []string{`{:ask {:handle [:model] :input {:model {:cap/ref :t/c}}}}`}, b: []string{`{:ask {:handle [:model]}}`}, c: []string{`{:value {:n 3}}`},
		asked: "a1 b1 c1", out: `{:n 3}`,
	},
	{
		name: "handle-made-up", a: []string{`{:ask {:cap/ref :t/b :intent :demo/answer}}`}, b: unwanted,
		node: ":cap/id :t/a", asked: "a1", fails: "auth/forbidden", exit: 4,
	},
	{
		name: "handle-made-up-for-another", node: given("b"),
		a: []string{`{:ask {:handle [:model] :input {:deep [{:model {:cap/ref :t/c}}]}}}`}, b: unwanted, c: unwanted, asked: "a1", fails: "auth/forbidden", exit: 4,
	},
	{
		name: "handle-of-nothing", node: ":input {:model {:cap/ref :t/none}}",
		a: []string{`{:ask {:handle [:model]}}`}, asked: "a1", fails: "cap/not-found", exit: 5,
	},
	{
		name: "handle-asked-often", node: given("b"),
		a: []string{`{:ask {:handle [:model] :times 65}}`}, b: []string{`{:value {:n 1}}`}, asked: "a1" + strings.Repeat(" b1", 65), out: `{:n 1}`,
	},
	{
		name: "handle-fails-over", node: given("b"), dispatch: ":retry {:fallback-max 1} :exclude [:t/b]",
		a: []string{`{:ask {:handle [:model]}}`}, b: []string{sigkill}, c: []string{`{:value {:n 3}}`}, asked: "a1 b1 c2", out: `{:n 3}`,
	},
	{
		name: "handle-circle", node: given("a"),
		a: []string{`{:ask {:handle [:model] :input {:model {:cap/ref :t/a}}}}`}, asked: "a1" + strings.Repeat(" a1", 8), fails: "plan/too-deep", exit: 1,
	},
	{
		name: "handle-waits-for-itself", node: given("b"), meta: ":limits {:max-in-flight 1}",
		a: []string{`{:ask {:handle [:model] :input {:q 2}}}`}, b: []string{`{:ask {:intent :demo/answer}}`}, asked: "a1 b1 a1", fails: "runtime/overloaded", exit: 3,
	},
	{
		name: "plan-is-no-request", node: ":cap/id :t/a",
		a: []string{`{:ask {:intent :plan/run :input {:plan {:nodes [{:op :emit :input {:n 1}}]}}}}`}, asked: "a1", fails: "auth/forbidden", exit: 4,
	},
	{
		name: "map-over-a-handle",
		plan: `{:nodes [{:op :map :over [1 {:q 2}] :fn {:cap/ref :t/a} :as :ys :max-parallel 1} {:op :emit :input {:all {:slot/path [:ys :out]}}}]}`,
		a:    []string{`{:template {:text "{{input}}"}}`}, asked: "a1 a1", out: `{:all [{:text "{:value 1}"} {:text "{:q 2}"}]}`,
	},
	{
		name: "map-over-a-handle-from-a-slot-keeps", loose: true,
		plan: `{:nodes [{:op :let :value {:cap/ref :t/a} :as :best}
 {:op :map :over [1 2] :fn {:slot/id :best} :intent :demo/answer :as :ys :max-parallel 1 :on-item-error :keep :done {:must #{:good}}}
 {:op :emit :input {:first {:slot/path [:ys :out 0 :failure/type]} :second {:slot/path [:ys :out 1]}}}]}`,
		a: []string{`{:value {:n 1}}`, `{:value {:good true}}`}, asked: "a1 a1", out: `{:first :eval/must-failed :second {:good true}}`,
	},
}

// given returns the input of a call with a handle.
func given(name string) string { return ":input {:q 1 :model {:cap/ref :t/" + name + "}}" }

// threeCalls is a plan of three calls in sequence; the last one may fail.
const threeCalls = `{:mode :strict :nodes [{:op :call :id "first" :intent :demo/answer :input {:q 1} :as :x :dispatch {:candidates [:t/a]}}
 {:op :call :id "second" :intent :demo/answer :input {:q 2} :as :y :dispatch {:candidates [:t/a]}}
 {:op :call :id "third" :intent :demo/answer :input {:q 3} :as :z :dispatch {:candidates [:t/a] :allow-failure? %v}}
 {:op :emit :input {:y {:slot/path [:y :n]} :z {:slot/path [:z :failure/type] :slot/default nil}}}]}`

const twoAttemptsARun = "budget \"run\" {\n  max_attempts = 2\n}\n"

// Effects of budgets on a run (BUD-001 to BUD-008, ATT-008 row 1, CHECK-023).
var spending = []sequence{
	{
		name: "budget-of-a-node-spent", dispatch: ":retry {:same-cap-max 3}", node: ":budget {:max-attempts 2}",
		a: []string{fails("provider/unavailable")}, asked: "a1 a2", fails: "budget/exceeded", exit: 1,
	},
	{ // a retry would use the attempt that the next candidate needs
		name: "budget-of-a-node-kept-for-the-next", dispatch: ":retry {:same-cap-max 3 :fallback-max 1}", node: ":budget {:max-attempts 2}",
		a: []string{fails("provider/unavailable")}, b: []string{`{:value {:n 2}}`}, asked: "a1 b2", out: `{:n 2}`,
	},
	{
		name: "budget-of-the-run-spent", plan: fmt.Sprintf(threeCalls, false), hcl: twoAttemptsARun,
		a: []string{`{:value {:n 1}}`}, asked: "a1 a1", fails: "budget/exceeded", exit: 1,
	},
	{
		name: "budget-spent-is-kept", plan: fmt.Sprintf(threeCalls, true), hcl: twoAttemptsARun,
		a: []string{`{:value {:n 1}}`}, asked: "a1 a1", out: `{:y 1 :z :budget/exceeded}`,
	},
	{
		name: "budget-tightest-of-all", dispatch: ":retry {:same-cap-max 5}", hcl: "budget \"user\" {\n  max_attempts = 100\n  per          = \"day\"\n}\n",
		node: ":budget {:max-roundtrips 3}", a: []string{fails("provider/unavailable")}, asked: "a1 a2 a3", fails: "budget/exceeded", exit: 1,
	},
	{
		name: "budget-too-dear-is-passed-over", node: ":budget {:max-usd 0.005M}", costs: map[string]string{"a": "0.01M", "b": "0.001M"},
		a: unwanted, b: []string{`{:value {:n 2}}`}, asked: "b1", out: `{:n 2}`,
	},
	{
		name: "budget-switches-to-the-cheaper", dispatch: ":retry {:same-cap-max 3 :fallback-max 1}", node: ":budget {:max-usd 0.015M}", costs: map[string]string{"a": "0.01M", "b": "0.001M"},
		a: []string{fails("provider/unavailable")}, b: []string{`{:value {:n 2}}`}, asked: "a1 b2", out: `{:n 2}`,
	},
	{
		name: "budget-price-unknown", node: ":budget {:max-usd 1}", a: unwanted, fails: "budget/exceeded", exit: 1,
	},
	{
		name: "budget-repair-spent", dispatch: ":repair {:max 3}", node: ":done {:must #{:good}} :budget {:max-attempts 2}", meta: ":repairs? true",
		a: []string{`{:value {:n 1}}`, `{:value {:n 2}}`}, asked: "a1 a2", fails: "budget/exceeded", exit: 1,
	},
	{
		name: "budget-check-spent", node: ":done {:must #{:verified}} :budget {:max-usd 0.011M}", costs: map[string]string{"a": "0.01M", "judge": "0.002M"},
		a: []string{`{:value {:n 1} :usage {:cost-usd 0.01M}}`}, judge: unwanted, asked: "a1", fails: "budget/exceeded", exit: 1,
	},
	{
		name: "budget-race-shrinks", dispatch: ":strategy :race", node: ":budget {:max-attempts 1}",
		a: []string{`{:value {:n 1}}`}, b: unwanted, asked: "a1", out: `{:n 1}`,
	},
	{
		name: "budget-slice-of-a-plan", meta: ":can-produce #{:value :plan}", node: ":budget {:max-attempts 3}",
		a: []string{`{:plan {:mode :strict :nodes [{:op :map :over [1 2 3] :item :n :as :ys :max-parallel 1 :body [{:op :call :id "inner" :intent :demo/answer :input {:n {:slot/id :n}} :as :r :dispatch {:candidates [:t/b]}}]}
                                                  {:op :emit :input :ys}]}}`},
		b: []string{`{:value {:n 1}}`}, asked: "a1 b1 b1", fails: "budget/exceeded", exit: 1,
	},
	{
		name: "budget-depth-spent", meta: ":can-produce #{:value :plan}", dispatch: ":retry {:fallback-max 1}", node: ":budget {:max-depth 0}",
		a: []string{`{:plan {:nodes [{:op :emit :input 1}]}}`}, b: []string{`{:value {:n 2}}`}, asked: "a1 b2", out: `{:n 2}`,
	},
	{
		name: "budget-time-spent", dispatch: ":retry {:same-cap-max 1 :fallback-max 2}", node: ":budget {:max-wall-ms 150}",
		a: []string{hang}, b: []string{hang}, asked: "a1 b2", fails: "budget/exceeded", exit: 1,
	},
	{
		name: "budget-worst-case-refused", dispatch: ":retry {:same-cap-max 3}", hcl: "budget \"run\" {\n  max_attempts      = 2\n  refuse_worst_case = true\n}\n",
		a: unwanted, fails: "budget/would-exceed", exit: 1,
	},
}

// CLI-001, BRK-002: progress shows the open breaker that a call waits for.
func TestBreakerIsTold(t *testing.T) {
	t.Parallel()
	i := slices.IndexFunc(circuits, func(s sequence) bool { return s.name == "breaker-waits-for-the-probe" })
	got := circuits[i].world(t).run("run", "plan.edn", "--progress", "text")
	assert.Equal(t, 0, got.code, got.stderr)
	assert.Regexp(t, `breaker/opened: :t/a for :demo/answer \(plugin a\) has an open breaker for (100|200)ms`, got.stderr)
}

// TestSequences runs the sequences of fallback, of repairs and of each row of
// the decision, and compares their transcripts with golden files (SCR-004,
// EVAL-061, EVAL-075).
func TestSequences(t *testing.T) {
	t.Parallel()
	runSequences(t, cascades, repairs, rows)

	names := map[string]bool{}
	for _, s := range slices.Concat(cascades, repairs, strategies, rows, circuits, scenarios, handles, spending) {
		require.False(t, names[s.name], "%s is there twice", s.name)
		names[s.name] = true
	}
	files, err := os.ReadDir(filepath.Join("testdata", "sequences"))
	require.NoError(t, err)
	for _, f := range files {
		assert.True(t, names[strings.TrimSuffix(f.Name(), ".edn")], "no sequence makes %s", f.Name())
	}
}

func runSequences(t *testing.T, groups ...[]sequence) {
	for _, s := range slices.Concat(groups...) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := s.world(t)
			got := w.run("run", "plan.edn", "--transcript", "-o", "edn")
			response := got.value(t)
			assert.Equal(t, s.exit, got.code, got.stderr)
			assert.Equal(t, s.fails, word(response.Key("error").Key("type")), "%s", response.Key("error"))
			if s.fails == "" {
				assert.Equal(t, s.out, response.Key("result").Key("out").String())
			}
			transcript := response.Key("transcript")
			assertEntries(t, transcript)
			assert.Equal(t, s.asked, asks(transcript, s.loose))
			golden(t, filepath.Join("sequences", s.name+".edn"), w.account(got, response, s.loose))
		})
	}
}

func word(v edn.Value) string {
	s, _ := v.AsKeyword()
	return s
}

// entryKeys are the allowed keys of a transcript entry (EVAL-061).
var entryKeys = strings.Fields("op node path intent cap/id tool/id as attempt candidate-index input result/type out latency-ms invoke/meta error failure/type findings plan/run")

// assertEntries checks the keys of a transcript.
func assertEntries(t testing.TB, transcript edn.Value) {
	t.Helper()
	for entry := range transcript.Elems() {
		for k := range entry.Entries() {
			assert.Contains(t, entryKeys, word(k))
		}
		for _, always := range []string{"op", "node", "path", "attempt", "input"} {
			assert.True(t, entry.HasKey(always), "%s in %s", always, entry)
		}
		if word(entry.Key("op")) == "quality" {
			continue // not an attempt, but a remediation
		}
		if ms, ok := entry.Key("latency-ms").AsInt(); assert.True(t, ok, "a latency in %s", entry) {
			assert.GreaterOrEqual(t, ms, int64(0))
		}
		if e := entry.Key("error"); !e.IsNil() {
			assert.Equal(t, word(e.Key("type")), word(entry.Key("failure/type")), "%s", entry)
		}
	}
}

// asks summarizes a transcript: node, candidate and number of each attempt.
func asks(transcript edn.Value, loose bool) string {
	var all []string
	for entry := range transcript.Elems() {
		if word(entry.Key("op")) == "quality" {
			all = append(all, strings.TrimPrefix(word(entry.Key("input").Key("event")), "quality/")+"("+strings.TrimPrefix(word(entry.Key("cap/id")), "t/")+")")
			continue
		}
		n, _ := entry.Key("attempt").AsInt()
		all = append(all, fmt.Sprintf("%s%d", strings.TrimPrefix(word(entry.Key("cap/id")), "t/"), n))
	}
	if loose {
		slices.Sort(all)
	}
	return strings.Join(all, " ")
}

// account is the content of a golden file about a run: its end and its
// transcript, without times and names of this machine. Entries of concurrent
// calls are ordered by path.
func (w *world) account(got ended, response edn.Value, loose bool) edn.Value {
	transcript := slices.Collect(response.Key("transcript").Elems())
	if loose {
		slices.SortStableFunc(transcript, func(a, b edn.Value) int {
			return cmp.Or(edn.Compare(a.Key("path"), b.Key("path")), edn.Compare(a.Key("attempt"), b.Key("attempt")))
		})
	}
	var b edn.MapBuilder
	b.Key("exit", edn.Int(int64(got.code)))
	if e := response.Key("error"); !e.IsNil() {
		b.Key("error", w.masked(e))
	} else {
		b.Key("out", w.masked(response.Key("result").Key("out")))
	}
	b.Key("transcript", w.masked(edn.Vector(transcript...)))
	return b.Map()
}

var machineWords = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`run_[0-9A-Z]{26}`), "run_1"},
	{regexp.MustCompile(`b3:[0-9a-f]{64}`), "b3:0"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:?\d\d)`), "TIME"},
}

// masked replaces values of this machine and time by fixed ones.
func (w *world) masked(v edn.Value) edn.Value {
	w.t.Helper()
	out, err := v.Walk(nil, func(v edn.Value) edn.Value {
		for _, key := range []string{"latency-ms", "pid", "retry-after-ms"} {
			if v.IsMap() && v.HasKey(key) {
				v = v.AssocKey(key, edn.Int(0))
			}
		}
		if v.IsMap() && v.HasKey("stderr-tail") {
			v = v.AssocKey("stderr-tail", edn.Vector())
		}
		if s, ok := v.AsString(); ok {
			return edn.Text(w.mask(s))
		}
		if v.Kind() == edn.KindInst {
			return edn.Inst(time.Unix(0, 0).UTC())
		}
		return v
	})
	require.NoError(w.t, err)
	return out
}

func (w *world) mask(s string) string {
	s = strings.ReplaceAll(s, w.dir, "DIR")
	s = strings.ReplaceAll(s, built.root, "BUILT")
	for _, m := range machineWords {
		s = m.from.ReplaceAllString(s, m.to)
	}
	return s
}

// golden compares a value with a file of testdata.
func golden(t testing.TB, name string, v edn.Value) {
	t.Helper()
	file := filepath.Join("testdata", name)
	text := string(edn.WritePretty(v, edn.PrettyOptions{Width: 140, First: []edn.Value{edn.K("exit"), edn.K("out"), edn.K("error")}})) + "\n"
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		return
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), text)
}
