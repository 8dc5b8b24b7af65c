package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
	"github.com/fermenthq/ferment/sdk/edn"
)

// verdictOf returns a scripted model's verdict on an answer, in the requested
// schema.
func verdictOf(score string) string {
	return verdictWith(`"score": `+score, `"score": {{input.verdict.control}}`)
}

// preferenceOf returns its verdict on two answers.
func preferenceOf(better string) string {
	return verdictWith(fmt.Sprintf(`"better": %q`, better), `"better": "{{input.verdict.control}}"`)
}

func verdictWith(said, control string) string {
	text := fmt.Sprintf(`{"verdict": "{{input.verdict.code}}", "criteria": {"clear": {"reason": "t={{budget.temperature}}", %s}, "attention-check": {%s}}}`, said, control)
	return edn.MustMap(edn.K("template"), edn.MustMap(edn.K("text"), edn.Text(text), edn.K("finish"), edn.K("stop"))).String()
}

// verdictsOf returns those of one measurement: the scores of the anchors
// twice, then the choices of their pairs.
func verdictsOf(scores, choices []string) []string {
	var out []string
	for range 2 {
		for _, s := range scores {
			out = append(out, verdictOf(s))
		}
	}
	for _, c := range choices {
		out = append(out, preferenceOf(c))
	}
	return out
}

// graders returns a world with the judge and a scripted model behind it.
func graders(t testing.TB, more string, steps ...string) *world {
	return newWorld(t,
		"model.edn", script(":llm/judge", ":model/chat", `:kind :llm :model "alpha-2" :family "alpha" :in-schema :req/chat :out-schema :res/chat :then :cycle`, steps...),
		"ferment.hcl", testProfile+scripted("model")+shipped("judge", "judge")+`
intent "eval/grade" {
  in         = "req/eval"
  out        = "res/eval"
  candidates = ["judge/rubric", "judge/rules"]
}

dispatch "default" {
  retry { fallback = 1 }
}

rubric "answer" {
  scale = [0, 10]
  criterion "clear" { ask = "Is it clear?" }
}
`+more)
}

const oneAnswer = `:task/call {:input {:text "What is ACID?"}} :task/result {:out {:text "Four properties."}} :rubric {:scale [0 10] :criteria [{:id :clear :ask "Is it clear?"}] :rules [{:rule :terms :all ["properties"]}]}`

// JDG-001, JDG-009: a judge calls a model through the host, at temperature 0,
// and learns which model answered. It rejects answers of the author's own
// model family, and the next judge grades.
func TestJudgeAsksThroughTheHost(t *testing.T) {
	t.Parallel()
	w := graders(t, `
intent "model/chat" {
  in          = "req/chat"
  out         = "res/chat"
  candidates  = ["llm/judge"]
  temperature = 0.7
}
`, verdictOf("4"))
	got := w.run("act", "eval/grade", "{"+oneAnswer+"}", "--edn")
	require.Equal(t, 0, got.code, got.stdout+got.stderr)
	response := got.value(t)
	out := response.Key("result").Key("out")
	assert.Equal(t, "0.7M", out.Key("score").String(), "the criterion and the rule: %s", response)
	assert.Equal(t, `[{:criterion :clear :message "t=0"}]`, out.Key("findings").String())
	assert.Equal(t, `"alpha"`, out.Key("judge").Key("family").String())
	assert.Equal(t, `"alpha-2"`, out.Key("judge").Key("model").String())
	assert.Equal(t, ":llm/judge", out.Key("judge").Key("cap/id").String())
	assert.Equal(t, "[:judge/rubric :llm/judge]", capsIn(response), "the cost of the model is that of the run")

	got = w.run("act", "eval/grade", "{"+oneAnswer+` :judge {:author {:family "alpha"}}}`, "--edn")
	require.Equal(t, 0, got.code, got.stdout+got.stderr)
	response = got.value(t)
	assert.Equal(t, ":deterministic", response.Key("result").Key("out").Key("judge").Key("kind").String(), "%s", response)
	assert.Equal(t, "{:judge/same-family 1}", response.Key("plan/run").Key("telemetry").Key("calls/failure-types").String())
}

func capsIn(response edn.Value) string {
	var ids []edn.Value
	for id := range response.Key("usage").Key("by-capability").Entries() {
		ids = append(ids, id)
	}
	return edn.Vector(ids...).String()
}

// JDG-002, JDG-012: without a model the rules grade what the rubric has rules
// for, and report that share; a rubric with criteria only gives no score.
func TestJudgeWithoutAModel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ferment.hcl", testProfile+shipped("judge", "judge")+`
intent "eval/grade" {
  in         = "req/eval"
  out        = "res/eval"
  candidates = ["judge/rubric", "judge/rules"]
}

dispatch "default" {
  retry { fallback = 1 }
}
`)
	got := w.run("act", "eval/grade", "{"+oneAnswer+"}", "--edn")
	require.Equal(t, 0, got.code, got.stdout+got.stderr)
	out := got.value(t).Key("result").Key("out")
	assert.Equal(t, ":deterministic", out.Key("judge").Key("kind").String())
	assert.Equal(t, "0.5M", out.Key("coverage").String())
	for _, rubric := range []string{``, `:rubric {:criteria [{:id :right :ask "Is it right?"}]}`} {
		got = w.run("act", "eval/grade", `{:task/call {:input {:text "What is 2 + 2?"}} :task/result {:out {:text "It is 5."}} `+rubric+`}`, "--edn")
		assert.NotEqual(t, 0, got.code, got.stdout)
		assert.Contains(t, got.stdout+got.stderr, "judge/no-score")
	}
}

// anchors returns n good and n bad answers in turn.
func anchors(n int) string {
	var b strings.Builder
	b.WriteString("{:score-min 0.7 :anchors [")
	for i := range n {
		for _, label := range []string{"good", "bad"} {
			fmt.Fprintf(&b, "{:id \"%s%d\" :label :%s :task/call {:input {:text \"Question %d?\"}} :task/result {:out {:text \"A %s answer.\"}}}\n", label, i, label, i, label)
		}
	}
	return b.String() + "]}\n"
}

const grader = `
judge "grader" {
  capability = "judge/rubric"
  rubric     = "answer"
  anchors    = "anchors.edn"
}
`

// JDG-010, JDG-011: a judge is measured through the host, in each output
// format; the record is stored, and a later drop is reported.
func TestCalibrate(t *testing.T) {
	t.Parallel()
	// Anchors and verdicts alternate; the last bad one passes each time.
	var scores, choices []string
	for range 19 {
		scores, choices = append(scores, "9", "1"), append(choices, "first", "second")
	}
	scores, choices = append(scores, "7", "8"), append(choices, "first", "second")
	sound := verdictsOf(scores, choices)
	w := graders(t, grader, sound...)
	w.write("anchors.edn", anchors(20))
	record := filepath.Join(w.dir, "var", "calibration", "grader.edn")

	got := w.run("judge", "calibrate", "--parallel", "1")
	require.Equal(t, 0, got.code, got.stdout+got.stderr)
	assert.Empty(t, got.stderr, "no progress without a terminal")
	assert.Equal(t, `judge                grader (judge/rubric, model alpha-2, family alpha)
anchors              20 good, 20 bad
sensitivity          1.00  of the good ones pass at 0.7M
specificity          0.95  of the bad ones do not
kappa                0.95  agreement beyond chance, 0.40 is needed to refuse answers
changed verdicts     0.00  of 40 anchors that were judged twice
score and length     not measured
first place          +0.00 preference in 40 choices
own family           not measured
spread of scores     0.39
spent                100 verdicts, 0 tokens in, 0 out, 0.000000 USD
result               its verdicts may refuse answers
written to           var/calibration/grader.edn
`, got.stdout)
	first := readRecord(t, record)
	assert.Equal(t, 0.95, first.Kappa)
	assert.Equal(t, "judge/rubric", first.Capability)
	assert.True(t, strings.HasPrefix(first.Key, "b3:"))
	assert.False(t, first.Baseline.Known())
	info, err := os.Stat(record)
	require.NoError(t, err)
	assert.EqualValues(t, 0o600, info.Mode().Perm())
	assert.Len(t, filesIn(t, filepath.Dir(record)), 1, "nothing but the record")

	// On a terminal one line shows the progress (CLI-001).
	code, seen := w.onTerminal(nil, "judge", "calibrate", "--parallel", "1")
	assert.Equal(t, 0, code, seen)
	assert.Contains(t, seen, "\r\x1b[Kverdict 99 of 100\r\x1b[Kverdict 100 of 100\r\x1b[Kjudge  ")

	// The same model behind the same judge with worse verdicts: it drifted.
	scores, choices = nil, nil
	for i := range 20 {
		scores, choices = append(scores, "9", []string{"9", "1", "1"}[i%3]), append(choices, "first", "first")
	}
	worse := verdictsOf(scores, choices)
	w.write("model.edn", script(":llm/judge", ":model/chat", `:kind :llm :model "alpha-2" :family "alpha" :in-schema :req/chat :out-schema :res/chat :then :cycle`, worse...))
	s := w.serve()
	for _, form := range []string{"--json", "--edn"} {
		got = w.run("judge", "calibrate", "grader", "--anchors", "anchors.edn", "--parallel", "1", form)
		require.Equal(t, 1, got.code, got.stdout+got.stderr)
		assert.Contains(t, got.stdout, "agrees less than at first")
		assert.Contains(t, got.stdout, "prefers what is shown first")
	}
	v := got.value(t)
	assert.Equal(t, "false", v.Key("believed?").String())
	assert.Equal(t, "[:order :drift]", edn.Vector(keysUnder(v.Key("faults"), "fault")...).String())
	drifted := readRecord(t, record)
	assert.True(t, drifted.Drifted(0.15))
	assert.Equal(t, drifted.Hash(), mustText(t, v.Key("hash")))
	assert.Equal(t, 0.95, drifted.Baseline.Value)
	got = w.run("judge", "calibrate", "--reset", "--parallel", "1")
	require.Equal(t, 0, got.code, got.stdout+got.stderr)
	assert.False(t, readRecord(t, record).Baseline.Known(), "from here on the judge is held against this")
	s.stop()
}

func keysUnder(list edn.Value, name string) []edn.Value {
	var out []edn.Value
	for v := range list.Elems() {
		out = append(out, v.Key(name))
	}
	return out
}

func mustText(t testing.TB, v edn.Value) string {
	s, ok := v.AsString()
	require.True(t, ok, "%s", v)
	return s
}

func filesIn(t testing.TB, dir string) []os.DirEntry {
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	return list
}

func readRecord(t testing.TB, file string) calibration.Record {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	v, err := edn.Read(text)
	require.NoError(t, err)
	r, err := calibration.ParseRecord(v)
	require.NoError(t, err)
	return r
}

// JDG-010: a measurement that is not possible is an error with a hint, and
// nothing is written.
func TestCalibrateRefuses(t *testing.T) {
	t.Parallel()
	w := graders(t, grader+"judge \"second\" { capability = \"judge/rules\" }\n", `{:value {:text "I like it." :finish :stop}}`)
	w.write("anchors.edn", anchors(20))
	w.write("few.edn", anchors(3))
	w.write("broken.edn", "{:anchors [")
	none := newWorld(t, "ferment.hcl", testProfile+shipped("judge", "judge"))
	for _, c := range []struct {
		w    *world
		args string
		code int
		says string
	}{
		{w, "", 2, "there are 2 judges: name one of grader, second"},
		{w, "gradr", 5, `did you mean`},
		{w, "second", 2, "give a file with --anchors"},
		{w, "grader --anchors missing.edn", 3, "missing.edn"},
		{w, "grader --anchors few.edn", 2, "found 3 :good and 3 :bad"},
		{w, "grader --anchors broken.edn", 2, "broken.edn:1"},
		{w, "grader --parallel 0", 2, "--parallel 0: expected 1 to 64"},
		{w, "grader --deadline 0s", 2, "--deadline 0s"},
		{w, "grader one more", 2, "got 3 arguments"},
		{w, "grader", 1, "judge/no-score"},
		{none, "", 5, "the configuration has no judge"},
	} {
		got := c.w.run(append([]string{"judge", "calibrate"}, strings.Fields(c.args)...)...)
		assert.Equal(t, c.code, got.code, "%s: %s", c.args, got.stderr)
		assert.Contains(t, got.stderr, c.says, c.args)
		assert.NoDirExists(t, filepath.Join(c.w.dir, "var", "calibration"), c.args)
	}
}

// JDG-010: a judge by rules is measured like any other, and an unreadable
// record is replaced.
func TestCalibrateRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "anchors.edn", anchors(20), "var/calibration/rules.edn", "{:kappa", "ferment.hcl", testProfile+shipped("judge", "judge")+`
rubric "words" {
  rules = [{ rule = "terms", all = ["good"] }]
}

judge "rules" {
  capability = "judge/rules"
  rubric     = "words"
}
`)
	got := w.run("judge", "calibrate", "--anchors", "anchors.edn", "--edn")
	require.Equal(t, 0, got.code, got.stdout+got.stderr)
	assert.Contains(t, got.stderr, "is not a calibration record and is replaced")
	r := readRecord(t, filepath.Join(w.dir, "var", "calibration", "rules.edn"))
	assert.Equal(t, []float64{1, 1, 1}, []float64{r.Sensitivity, r.Specificity, r.Kappa})
	assert.Equal(t, calibration.Measured{Value: 0, Of: 40}, r.Flips)
}
