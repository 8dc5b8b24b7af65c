package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
	"github.com/fermenthq/ferment/sdk/edn"
)

// judgedWorld has two authors and the shipped judge with rules: the answers of
// the first author violate the rules.
func judgedWorld(t testing.TB) *world {
	w := newWorld(t, "ferment.hcl", scripted("mine")+shipped("judge", "judge")+`
dispatch "default" {
  retry {
    fallback = 1
  }
}

intent "text/respond" {
  in         = "req/text"
  out        = "res/text"
  candidates = ["t/curt", "t/full"]

  done {
    score_min = 0.8
  }

  judge {
    use      = "answers"
    severity = "must"
  }
}

judge "answers" {
  capability = "judge/rules"
  rubric     = "answer"
}

rubric "answer" {
  rules = edn("[{:rule :terms :all [\"red\" \"green\" \"blue\"]}]")
}
`, "mine.edn", `{:capabilities
 {:t/curt {:intents #{:text/respond} :in-schema :req/text :out-schema :res/text :steps [{:value {:text "None."}}]}
  :t/full {:intents #{:text/respond} :in-schema :req/text :out-schema :res/text :steps [{:value {:text "They are red, green and blue."}}]}}}`)
	return w
}

// JDG-001: the judge of a gate calls the intent that its plugin is configured with.
func TestJudgeGateAsksTheConfiguredIntent(t *testing.T) {
	t.Parallel()
	model := func(id, intent, verdict string) string {
		return script(id, intent, `:kind :llm :in-schema :req/any :out-schema :res/any`, verdict)
	}
	w := newWorld(t, "mine.edn", script(":t/full", ":text/respond", ":in-schema :req/text :out-schema :res/text", `{:value {:text "Red."}}`),
		"chat.edn", model(":llm/chat", ":model/chat", verdictOf("0.1")), "ask.edn", model(":llm/ask", ":judge/ask", verdictOf("0.9")),
		"ferment.hcl", testProfile+scripted("mine")+scripted("chat")+scripted("ask")+
			shipped("judge", "judge", `config { intent = "judge/ask" }`)+`
intent "text/respond" {
  in  = "req/text"
  out = "res/text"

  judge { use = "clear" }
}

judge "clear" {
  capability = "judge/rubric"
  rubric     = "clear"
}

rubric "clear" {
  criterion "clear" { ask = "Is it clear?" }
}
`)
	got := w.run("act", "text/respond", `{:text "Name a colour."}`, "--edn")
	require.Zero(t, got.code, got.stdout+got.stderr)
	response := got.value(t)
	assert.Contains(t, capsIn(response), ":llm/ask", "%s", response)
	assert.NotContains(t, capsIn(response), ":llm/chat", "%s", response)
}

// GATE-008, JDG-005, JDG-011: a judge rejects an answer with a readable
// reason, and the next candidate serves; validate and explain show the
// calibration of the judge and its place.
func TestJudgeGate(t *testing.T) {
	t.Parallel()
	w := judgedWorld(t)
	r := w.run("validate", "--describe")
	require.Zero(t, r.code, r.stderr)
	assert.Contains(t, r.stdout+r.stderr, `judge "answers" was not calibrated: it only counts in the score`)
	assert.Contains(t, r.stdout+r.stderr, "ferment judge calibrate answers --anchors FILE.edn")
	r = w.run("explain", "text/respond")
	require.Zero(t, r.code, r.stderr)
	assert.Regexp(t, `:judge :use +"answers"  \(intent, ferment.hcl:\d+:\d+\)`, r.stdout)

	r = w.run("act", "text/respond", `{:text "Name the colours."}`, "--report", "--progress", "text", "-o", "edn")
	require.Zero(t, r.code, r.stderr)
	v := r.value(t)
	assert.Equal(t, `"They are red, green and blue."`, v.Key("result").Key("out").Key("text").String())
	assert.Equal(t, "2", v.Key("usage").Key("judge-calls").String(), v.String())
	last := edn.Nil()
	for check := range v.Key("quality").Key("checks").Elems() {
		last = check
	}
	assert.Equal(t, `{:gate :judge/answers :pass true :score 1M :severity :should}`, last.String())
	assert.Contains(t, r.stderr, "gate judge/answers failed: judge answers (:judge/rules) gave 0, expected at least 0.8; it only counts in the score, because the judge was not calibrated")
	assert.Contains(t, r.stderr, "gate judge/answers passed, judge/rules gave 1")
	assert.Contains(t, r.stderr, "judge/answers 1 ok", "the report")

	measured := calibration.Record{Judge: "answers", Capability: "judge/rules", Anchors: "b3:0", Good: 20, Bad: 20, Kappa: 1, At: time.Now().UTC()}
	w.write("var/calibration/answers.edn", measured.Value().String())
	r = w.run("validate")
	assert.NotContains(t, r.stdout+r.stderr, "calibrat")
	w.write("plan.edn", `{:nodes [{:op :call :intent :text/respond :cap/id :t/curt :dispatch {:retry {:fallback-max 0}} :input {:text "Name the colours."} :as :x} {:op :emit :input :x}]}`)
	r = w.run("run", "plan.edn", "-o", "edn")
	assert.Equal(t, 1, r.code)
	assert.Contains(t, strings.ReplaceAll(r.stderr+r.stdout, "\n", " "), "refused by :judge/answers: judge answers (:judge/rules) gave 0, expected at least 0.8")
	assert.Contains(t, r.stdout+r.stderr, "eval/must-failed")

	r = w.run("check", "plan.edn")
	assert.Contains(t, r.stdout+r.stderr, "judge-calls 1")
}

// PRM table, JDG-002: the judge of the shipped configuration lowers the score
// of an incomplete change, and not that of a complete one.
func TestShippedJudgeOfPatches(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(built.module, "ferment.hcl"))
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "\nrubric \"patch\" {")
	require.True(t, ok)
	blocks, _, ok := strings.Cut(rest, "\n# --- dispatch")
	require.True(t, ok)
	changes := []struct {
		line string
		pass bool
	}{
		{`return a + b`, true},
		{`return { ...rest, a: 1 } // the remaining keys`, true},
		{`// ... existing code ...`, false},
		{`\t# … rest of the function unchanged`, false},
		{`... remaining cases omitted`, false},
		{`<<<<<<< HEAD`, false},
		{`=======`, false},
		{`// TODO: the other half`, true},
	}
	var steps []string
	for _, c := range changes {
		patch := "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+" + strings.ReplaceAll(c.line, `\t`, "\t") + "\n"
		steps = append(steps, edn.MustMap(edn.K("value"), edn.MustMap(edn.K("patch"), edn.Text(patch))).String())
	}
	w := newWorld(t, "mine.edn", script(":t/patch", ":t/patch", ":in-schema :req/any :out-schema :res/any :then :cycle", steps...), "ferment.hcl", testProfile+scripted("mine")+shipped("judge", "judge")+`
intent "t/patch" {
  in  = "req/any"
  out = "res/any"

  done { score_min = 0.8 }
  judge { use = "patch" }
}

intent "eval/grade" {
  in         = "req/eval"
  out        = "res/eval"
  candidates = ["judge/rubric", "judge/rules"]
}

rubric "patch" {`+blocks)
	got := w.run("validate", "--describe")
	require.Zero(t, got.code, got.stderr)
	assert.NotContains(t, got.stdout+got.stderr, "calibrat", "there is nothing to measure")
	assert.Contains(t, w.run("judge", "list").stdout, "plain")
	nodes := ""
	for i := range changes {
		nodes += fmt.Sprintf("{:op :call :id \"c%d\" :intent :t/patch :input {:n %d} :as :x%d :needs %s :dispatch {:allow-failure? true}}\n", i, i, i, needs(i))
	}
	w.write("plan.edn", "{:nodes ["+nodes+"{:op :emit :input 1}]}")
	got = w.run("run", "plan.edn", "--transcript", "-o", "edn")
	require.Zero(t, got.code, got.stderr)
	i := 0
	for entry := range got.value(t).Key("transcript").Elems() {
		if word(entry.Key("op")) != "call" {
			continue
		}
		failure, _ := entry.Key("failure/type").AsKeyword()
		want := ""
		if !changes[i].pass {
			want = "eval/low-score"
		}
		assert.Equal(t, want, failure, changes[i].line)
		i++
	}
	assert.Equal(t, len(changes), i)
}

// needs returns a dependency on the previous node.
func needs(i int) string {
	if i == 0 {
		return "[]"
	}
	return fmt.Sprintf("[\"c%d\"]", i-1)
}
