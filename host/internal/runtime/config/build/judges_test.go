package build_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/configtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// grading describes the chess plugin with a grading capability.
func grading() contract.Description {
	d := configtest.Chess()
	grader := d.Capabilities[0]
	grader.ID, grader.Kind, grader.Intents = "chess/grader", "judge", []string{registry.IntentGrade}
	grader.InSchema, grader.OutSchema = contract.SchemaRef{Name: "req/eval"}, contract.SchemaRef{Name: "res/eval"}
	d.Capabilities = append(d.Capabilities, grader)
	return d
}

const judgedIntent = configtest.OnePlugin + `
intent "chess/best-move" {
  in  = "req/chess.position"
  out = "res/chess.move+pv+eval"

  judge {
    use      = "moves"
    severity = "must"
  }
}
`

// JDG-001 to JDG-011: the settings and defaults of the blocks judge, rubric and
// intent.judge.
func TestJudges(t *testing.T) {
	c, ds := configtest.LoadWith(t, judgedIntent+`
judge "moves" {
  rubric = "answer"
}

judge "plain" {
  intent            = "eval/grade"
  capability        = "chess/grader"
  rubric            = "rubric/answer"
  enabled           = false
  score_path        = ["result", "grade"]
  max_attempts      = 2
  votes             = 5
  on_error          = "ignore"
  allow_same_family = true
  memo              = false
  min_kappa         = 0.6
  anchors           = "bin/chess"
  recheck           = "1d"
  drift             = 0.1
}

rubric "answer" {
  version = 2
  scale   = [0, 10]
  rules   = { terms = ["mate"] }

  criterion "faithful" {
    ask    = "is the move legal?"
    weight = 3
  }

  criterion "complete" {
    ask = "does it say why?"
  }
}
`, configtest.Describer{"chess": grading()}, nil)
	require.NotNil(t, c.Generation, c.Report(0).Text(false))
	assert.ElementsMatch(t, []string{"config/missing", "config/unused"}, configtest.AllTypes(ds), c.Report(0).Text(false))
	assert.Contains(t, c.Report(0).Text(false), `judge "plain" is not used`)
	assert.Contains(t, c.Report(0).Text(false), `judge "moves" was not calibrated: it only counts in the score`)

	p, err := c.Generation.Policies.For("chess/best-move").Resolve()
	require.NoError(t, err)
	assert.Equal(t, "moves", p.Judge)
	assert.True(t, p.JudgeMust)
	reg := c.Generation.Registry
	assert.Equal(t, []string{"moves", "plain"}, reg.Judges())
	j, _ := reg.Judge("moves")
	assert.Equal(t, registry.IntentGrade, j.Intent)
	assert.True(t, j.Enabled && j.Memo && !j.IgnoreErrors && !j.AllowSameFamily)
	assert.Equal(t, []any{[]string{"score"}, 1, 3, 0.4, 0.15, 7 * 24 * time.Hour}, []any{j.ScorePath, j.MaxAttempts, j.Votes, j.MinKappa, j.Drift, j.Recheck})
	want := edn.MustRead(`{:id :rubric/answer :version 2 :scale [0 10] :rules {:terms ["mate"]}
	  :criteria [{:id :faithful :weight 3 :ask "is the move legal?"} {:id :complete :weight 1 :ask "does it say why?"}]}`)
	assert.True(t, edn.Equal(want, j.Rubric), j.Rubric.String())
	assert.Equal(t, "[0 10]", j.Scale().String())
	j, _ = reg.Judge("plain")
	assert.True(t, !j.Enabled && !j.Memo && j.IgnoreErrors && j.AllowSameFamily)
	assert.Equal(t, []any{"chess/grader", []string{"result", "grade"}, 2, 5, 0.6, 0.1, 24 * time.Hour}, []any{j.Capability, j.ScorePath, j.MaxAttempts, j.Votes, j.MinKappa, j.Drift, j.Recheck})
	assert.True(t, edn.Equal(want, j.Rubric))
}

// HCL-029 to HCL-031, HCL-034: unknown names, empty rubrics, and cycles of gates.
func TestJudgeProblems(t *testing.T) {
	rubric := "\nrubric \"answer\" {\n  criterion \"a\" {\n    ask = \"is it true?\"\n  }\n}\n"
	for _, row := range []struct{ name, text, typ, says string }{
		{"no such judge", judgedIntent + "\njudge \"move\" {}\n", "config/dangling-reference", `names the unknown judge "moves"`},
		{"no such rubric", judgedIntent + rubric + "\njudge \"moves\" {\n  rubric = \"answers\"\n}\n", "config/dangling-reference", `names the unknown rubric "answers"`},
		{"no such intent", judgedIntent + "\njudge \"moves\" {\n  intent = \"eval/mark\"\n}\n", "config/dangling-reference", `unknown intent "eval/mark"`},
		{"no such capability", judgedIntent + "\njudge \"moves\" {\n  capability = \"chess/grade\"\n}\n", "config/dangling-reference", `unknown capability "chess/grade"`},
		{"a capability for something else", judgedIntent + "\njudge \"moves\" {\n  capability = \"chess/engine\"\n}\n", "config/type", "does not serve intent \"eval/grade\""},
		{"even", judgedIntent + "\njudge \"moves\" {\n  votes = 4\n}\n", "config/range", "is even"},
		{"scale that falls", judgedIntent + rubric + "\njudge \"moves\" {}\n\nrubric \"b\" {\n  scale = [10, 0]\n  rules = {}\n}\n", "judge/rubric-invalid", "is not ascending"},
		{"nothing asked", "\nrubric \"b\" {}\n", "judge/rubric-invalid", "has neither a criterion nor rules"},
		{"an empty question", "\nrubric \"b\" {\n  criterion \"c\" {\n    ask = \" \"\n  }\n}\n", "judge/rubric-invalid", "has no question"},
		{"a ring", configtest.OnePlugin + "\nintent \"chess/best-move\" {\n  in  = \"req/chess.position\"\n  out = \"res/chess.move+pv+eval\"\n\n  judge {\n    use = \"a\"\n  }\n}\n\nintent \"eval/grade\" {\n  in  = \"req/eval\"\n  out = \"res/eval\"\n\n  judge {\n    use = \"b\"\n  }\n}\n\njudge \"a\" {}\n\njudge \"b\" {\n  intent = \"chess/best-move\"\n}\n",
			"config/cycle", "chess/best-move -> eval/grade -> chess/best-move"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c, ds := configtest.LoadWith(t, row.text, configtest.Describer{"chess": grading()}, nil)
			require.Equal(t, []string{row.typ}, configtest.Types(ds), c.Report(0).Text(false))
			for _, d := range ds {
				if d.Type == row.typ && d.Severity == diag.SeverityError {
					assert.Contains(t, d.Message, row.says)
					assert.NotNil(t, d.Range)
				}
			}
		})
	}
	// JDG-006: a judge does not grade its own intent, so this is not a cycle.
	c, ds := configtest.LoadWith(t, configtest.OnePlugin+"\nintent \"eval/grade\" {\n  in  = \"req/eval\"\n  out = \"res/eval\"\n\n  judge {\n    use = \"a\"\n  }\n}\n\njudge \"a\" {}\n", configtest.Describer{"chess": grading()}, nil)
	assert.Empty(t, configtest.Types(ds), c.Report(0).Text(false))
	// No capability serves the default intent of the judge: an error only if the judge is used.
	c, ds = configtest.LoadWith(t, judgedIntent+"\njudge \"moves\" {}\n", configtest.Describer{"chess": configtest.Chess()}, nil)
	require.Equal(t, []string{"config/dangling-reference"}, configtest.Types(ds), c.Report(0).Text(false))
	assert.Equal(t, `no capability serves intent "eval/grade", which judge "moves" calls`, ds[0].Message)
	assert.Equal(t, []string{"intent", "chess/best-move", "judge", "use"}, ds[0].Path)
	_, ds = configtest.LoadWith(t, judgedIntent+"\njudge \"moves\" {\n  enabled = false\n}\n", configtest.Describer{"chess": configtest.Chess()}, nil)
	assert.Empty(t, configtest.Types(ds))
}

// JDG-011, HCL-031: a judge with an insufficient calibration is a warning.
func TestBelievedJudges(t *testing.T) {
	text := judgedIntent + "\njudge \"moves\" {\n  capability = \"chess/grader\"\n}\n"
	record := calibration.Record{Judge: "moves", Capability: "chess/grader", Key: "b3:aa", Anchors: "b3:bb", Good: 20, Bad: 20, At: time.Now().UTC(), Kappa: 0.4}
	little, other, worse, old := record, record, record, record
	old.At = old.At.Add(-8 * 24 * time.Hour)
	little.Kappa, other.Capability = 0.39, "chess/engine"
	better := record
	better.Kappa = 0.8
	for _, row := range []struct {
		name, file, typ, says string
	}{
		{"measured", record.Value().String(), "", ""},
		{"too little", little.Value().String(), "config/range", "agrees too little with labelled answers"},
		{"another capability", other.Value().String(), "config/range", `was calibrated with capability "chess/engine", and calls "chess/grader"`},
		{"too long ago", old.Value().String(), "config/range", "was calibrated too long ago"},
		{"drifted", worse.Since(&better).Value().String(), "judge/drift", "kappa was 0.8 at first and is 0.4"},
		{"no record", "{:a 1}", "config/type", "cannot be used"},
		{"no EDN", "{", "config/type", "cannot be used"},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := configtest.Lay(t, map[string]string{"bin/chess": "program", "ferment.hcl": text, "var/calibration/moves.edn": row.file})
			c, ds := config.Load(context.Background(), filepath.Join(dir, "ferment.hcl"), config.Options{Describer: configtest.Describer{"chess": grading()}, Env: configtest.NoEnv})
			if row.typ == "" {
				assert.Empty(t, ds, c.Report(0).Text(false))
				return
			}
			require.Equal(t, []string{row.typ}, configtest.AllTypes(ds), c.Report(0).Text(false))
			assert.Equal(t, diag.SeverityWarning, ds[0].Severity)
			assert.Contains(t, ds[0].Message, row.says)
			assert.Equal(t, "run: ferment judge calibrate moves --anchors FILE.edn", ds[0].Hint)
		})
	}
}

// JDG-002, JDG-011: a deterministic judge that only counts in scores needs no
// calibration; with severity must, or if it may change, it does.
func TestPlainJudges(t *testing.T) {
	for _, row := range []struct {
		name, severity    string
		deterministic, is bool
		capability        string
	}{
		{"rules in the score", "should", true, true, "chess/grader"},
		{"rules that refuse", "must", true, false, "chess/grader"},
		{"a model in the score", "should", false, false, "chess/grader"},
		{"whoever grades", "should", true, false, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := grading()
			for i := range d.Capabilities {
				d.Capabilities[i].Deterministic = row.deterministic
			}
			text := strings.Replace(judgedIntent, `severity = "must"`, `severity = "`+row.severity+`"`, 1) + "\njudge \"moves\" {\n"
			if row.capability != "" {
				text += "  capability = \"" + row.capability + "\"\n"
			}
			c, ds := configtest.LoadWith(t, text+"}\n", configtest.Describer{"chess": d}, nil)
			require.NotNil(t, c.Generation, c.Report(0).Text(false))
			j, _ := c.Generation.Registry.Judge("moves")
			assert.Equal(t, row.is, j.Plain)
			assert.Equal(t, []string{"moves"}, c.Generation.JudgesInUse())
			if row.is {
				assert.Empty(t, ds, c.Report(0).Text(false))
			} else {
				assert.Equal(t, []string{"config/missing"}, configtest.AllTypes(ds), c.Report(0).Text(false))
			}
		})
	}
}
