//go:build slow

package cli_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
)

// JDG-011, JDG-001, BRK-001: a judge whose calibration expired is measured
// again soon after a daemon starts, on the budget of the host. It agrees less,
// so its breaker opens, which every command shows. An operator calibrates it
// through the same daemon, and a change of its model triggers another
// measurement.
func TestDaemonMeasuresJudges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ferment.hcl", testProfile+scripted("graders")+scripted("mine")+`
intent "t/say" {
  in  = "req/any"
  out = "res/any"

  done { score_min = 0.5 }

  judge {
    use      = "grader"
    severity = "must"
  }
}

judge "grader" {
  capability = "t/grader"
  anchors    = "anchors.edn"
  recheck    = "5m"
}

budget "tenant" { max_judge_calls = 10000 }
`, "graders.edn", gradedAs("mark", "m-1"), "mine.edn", script(":t/say", ":t/say", ":in-schema :req/any :out-schema :res/any", `{:value {:text "z" :mark "0.9" :other "0.9"}}`),
		"anchors.edn", markedAnchors())
	record := filepath.Join(w.dir, "var", "calibration", "grader.edn")

	got := w.run("judge", "calibrate", "--recheck")
	assert.Equal(t, []any{0, "no judge is due\n"}, []any{got.code, got.stdout}, "nobody has measured it yet")
	require.Equal(t, 0, w.run("judge", "calibrate").code)
	assert.Equal(t, "no judge is due\n", w.run("judge", "calibrate", "--recheck").stdout)
	w.ago(record, 4*time.Minute+30*time.Second)
	got = w.run("judge", "calibrate", "grader", "--recheck")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Contains(t, got.stdout, "its verdicts may refuse answers")
	assert.Equal(t, calibration.ByAge, readRecord(t, record).Why)

	old := w.ago(record, 10*time.Minute)
	validate := func() string {
		got := w.run("validate")
		return strings.Join(strings.Fields(got.stdout+got.stderr), " ")
	}
	assert.Contains(t, validate(), "measures the judge again soon after it started")
	w.write("graders.edn", gradedAs("other", "m-1"))
	s := w.serve()
	require.Eventually(t, func() bool { return readRecord(t, record).At.After(old.At) }, time.Minute, 20*time.Millisecond)
	r := readRecord(t, record)
	assert.Equal(t, []any{calibration.ByAge, 0.5, 1.0, 2}, []any{r.Why, r.Kappa, r.Baseline.Value, len(r.Course)})
	health := func() string {
		return s.request(context.Background(), "GET", "/health", "").value(t).Key("judges").String()
	}
	require.Eventually(t, func() bool { return health() == `[{:judge "grader" :state :drifted}]` }, runLimit, 20*time.Millisecond)
	scopes := s.admin(`{:action :budget-show}`).value(t).Key("result").Key("scopes")
	tenant, _ := scopes.Nth(0)
	assert.Equal(t, "{:judge-calls 80}", tenant.Key("used").String(), "verdicts are paid like votes")
	for _, event := range []string{"judge/rescored", "judge/drift"} {
		_, _, ok := s.logged(0, func(l logLine) bool { return l.text("event") == event })
		assert.True(t, ok, event)
	}
	a := s.ask("t/say", "{}")
	assert.Equal(t, "judge/failed", a.failure(t), "%s", a.body)
	assert.Contains(t, string(a.body), "kappa was 1 at first and is 0.5")
	a = s.request(context.Background(), "POST", "/v1/act", `{:proto 1 :trace {:id "t"} :task {:intent :eval/grade :cap/id :t/grader} :input {:task/result {:other "0.9"}}}`)
	assert.Equal(t, "breaker/open", a.failure(t), "%s", a.body)

	got = w.run("judge", "list")
	assert.Regexp(t, `(?m)^grader +t/grader +drifted +0.5 +1 +\d{4}-\d\d-\d\d +m-1 +\d{4}-\d\d-\d\d$`, got.stdout)
	got = w.run("judge", "show", "grader")
	assert.Contains(t, got.stdout, "drifted: it agrees less than at its baseline: it is not used")
	assert.Regexp(t, `(?m)^\d{4}-\d\d-\d\d \d\d:\d\d +1\.00 +m-1 +an operator +first of its kind$`, got.stdout)
	assert.Equal(t, 5, w.run("judge", "show", "gradr").code)
	assert.Regexp(t, `judge +grader +weak +it agrees less than at its baseline: it is not used, kappa 0.5 of`, strings.Join(strings.Fields(w.run("doctor").stdout), " "))
	assert.Contains(t, validate(), "does not grade as it did when it was calibrated, and is not called")

	// The judge was repaired, and gets a new baseline.
	w.write("graders.edn", gradedAs("mark", "m-2"))
	require.Equal(t, 0, w.run("admin", "reload").code)
	got = w.run("judge", "calibrate", "grader", "--reset", "--json")
	require.Equal(t, 0, got.code, got.stdout+got.stderr)
	assert.Equal(t, "[]", health())
	a = s.ask("t/say", "{}")
	assert.Equal(t, 200, a.status, "%s", a.body)
	r = readRecord(t, record)
	assert.Equal(t, []any{calibration.ByOperator, "m-2", false, 3}, []any{r.Why, r.Model, r.Baseline.Known(), len(r.Course)})

	w.write("graders.edn", gradedAs("mark", "m-3"))
	require.Equal(t, 0, w.run("admin", "reload").code)
	a = s.ask("t/say", `{:n 2}`)
	assert.Equal(t, 200, a.status, "%s", a.body)
	require.Eventually(t, func() bool { return readRecord(t, record).Model == "m-3" }, time.Minute, 20*time.Millisecond)
	assert.Equal(t, calibration.ByModel, readRecord(t, record).Why)
	s.stop()
	assert.Len(t, filesIn(t, filepath.Dir(record)), 1, "nothing but the record")
}
