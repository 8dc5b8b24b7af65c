package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/adapters/store/calibrations"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality/calibration"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/rescore"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/config/build"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/edn"
)

// JDG-011: the calibration of a judge follows its file.
func TestCalibrations(t *testing.T) {
	dir := t.TempDir()
	reg, err := registry.New(registry.Spec{Judges: []registry.Judge{{Name: "grader", Drift: 0.15, Recheck: time.Hour}}})
	require.NoError(t, err)
	c := newCalibrationCache(dir, reg)
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	c.now = func() time.Time { return at }
	look := func() calibration.Weight { at = at.Add(rereadAfter); return c.Weight("grader") }
	none := calibration.Weight{Standing: calibration.Uncalibrated}
	assert.Equal(t, none, look())

	key := "b3:" + strings.Repeat("0", 64)
	file := calibrations.Dir(dir).File("grader")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	keep := func(r calibration.Record) {
		next := file + ".new"
		require.NoError(t, os.WriteFile(next, edn.WritePretty(r.Value(), edn.PrettyOptions{}), 0o600))
		require.NoError(t, os.Rename(next, file))
	}
	first := calibration.Record{Judge: "grader", Capability: "judge/rules", Key: key, Anchors: key, Good: 20, Bad: 20, At: at, Kappa: 0.8}
	keep(first)
	assert.Equal(t, none, c.Weight("grader"), "not looked at for each answer")
	assert.Equal(t, calibration.Weight{Standing: calibration.Believed, Agrees: true, CapID: "judge/rules", Key: key}, look())
	at = at.Add(time.Hour)
	assert.Equal(t, calibration.Expired, look().Standing)
	worse := first
	worse.Kappa, worse.At = 0.6, at
	keep(worse.Since(&first))
	assert.Equal(t, calibration.Weight{Standing: calibration.Drifted, Agrees: true, CapID: "judge/rules", Key: key, Reason: "kappa was 0.8 at first and is 0.6"}, look())
	require.NoError(t, os.WriteFile(file, []byte("{"), 0o600))
	assert.Equal(t, none, look(), "what cannot be read is nothing")
	require.NoError(t, os.Remove(file))
	assert.Equal(t, none, look())
}

// JDG-011: a model that was not measured is reported if it graded for the
// measured capability. A record without models reports nothing, and a new
// record applies at once.
func TestServedModelsAreCompared(t *testing.T) {
	dir := t.TempDir()
	reg, err := registry.New(registry.Spec{Judges: []registry.Judge{{Name: "grader", Drift: 0.15, Recheck: time.Hour}}})
	require.NoError(t, err)
	c := newCalibrationCache(dir, reg)
	var told []string
	c.served = func(judge, model string) { told = append(told, judge+" "+model) }
	key := "b3:" + strings.Repeat("0", 64)
	r := calibration.Record{Judge: "grader", Capability: "judge/rubric", Key: key, Anchors: key, Good: 20, Bad: 20, At: time.Now().UTC(), Kappa: 0.8}
	serve := func() {
		c.Weight("grader")
		for _, model := range []string{"m-1", "m-2", "m-3"} {
			c.Served("grader", "judge/rubric", model)
		}
		c.Served("grader", "judge/other", "m-9")
		c.Served("nobody", "judge/rubric", "m-9")
	}
	serve()
	require.NoError(t, calibrations.Dir(dir).Keep(r))
	c.forget("grader")
	serve()
	assert.Empty(t, told)
	r.Model, r.Models = "m-1", []string{"m-1", "m-2"}
	require.NoError(t, calibrations.Dir(dir).Keep(r))
	c.forget("grader")
	serve()
	assert.Equal(t, []string{"grader m-3"}, told)
}

// JDG-011: judges are due that are in use, have anchors, and were measured by
// this capability long enough ago.
func TestJudgesDue(t *testing.T) {
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	judge := func(name, anchors string) registry.Judge {
		return registry.Judge{Name: name, Capability: "judge/rules", Anchors: anchors, Recheck: time.Hour, Enabled: true}
	}
	reg, err := registry.New(registry.Spec{Judges: []registry.Judge{
		judge("due", "a.edn"), judge("fresh", "a.edn"), judge("never", "a.edn"), judge("other", "a.edn"), judge("plain", ""), judge("unused", "a.edn"),
	}})
	require.NoError(t, err)
	book := &policy.Book{Intents: map[string]policy.Layer{}}
	for _, name := range []string{"due", "fresh", "never", "other", "plain"} {
		book.Intents["x/"+name] = policy.Layer{Judge: policy.Of(name, policy.Origin{})}
	}
	l := &setup.Loaded{Config: &config.Config{Generation: &build.Generation{Registry: reg, Policies: book}}}
	l.Host.DataDir = t.TempDir()
	key := "b3:" + strings.Repeat("0", 64)
	for name, age := range map[string]time.Duration{"due": 2 * time.Hour, "fresh": 0, "other": 2 * time.Hour, "plain": 2 * time.Hour, "unused": 2 * time.Hour} {
		r := calibration.Record{Judge: name, Capability: "judge/rules", Key: key, Anchors: key, Good: 20, Bad: 20, At: at.Add(-age), Kappa: 0.8}
		if name == "other" {
			r.Capability = "judge/llm"
		}
		require.NoError(t, calibrations.Dir(l.Host.DataDir).Keep(r))
	}
	names := func(name string) (out []string) {
		judges, err := l.JudgesDue(name, at)
		require.NoError(t, err)
		for _, j := range judges {
			out = append(out, j.Name)
		}
		return out
	}
	assert.Equal(t, []string{"due"}, names(""))
	assert.Empty(t, names("fresh"))

	states := l.JudgeStates(at)
	require.Len(t, states, 6)
	for _, s := range states {
		assert.Equal(t, s.Judge.Name != "unused", s.Used, s.Judge.Name)
		assert.Equal(t, s.Judge.Name == "never", s.Standing == calibration.Uncalibrated && s.Record == nil, s.Judge.Name)
	}

	require.NoError(t, os.WriteFile(calibrations.Dir(l.Host.DataDir).File("due"), []byte("{"), 0o600))
	_, err = l.JudgesDue("due", at)
	assert.Error(t, err)
}

// JDG-010: the answers that the measured judge graded with a measured model are
// counted, with the share of good ones corrected for its errors.
func TestShareOfGoodAnswers(t *testing.T) {
	dir := t.TempDir()
	reg, err := registry.New(registry.Spec{Judges: []registry.Judge{{Name: "grader", Recheck: time.Hour}}})
	require.NoError(t, err)
	c := newCalibrationCache(dir, reg)
	key := "b3:" + strings.Repeat("0", 64)
	r := calibration.Record{
		Judge: "grader", Capability: "judge/rules", Key: key, Anchors: key, Good: 40, Bad: 40, At: time.Now().UTC().Truncate(time.Second),
		ScoreMin: 500, Kappa: 0.8, Sensitivity: 0.9, Specificity: 0.9, Model: "m-1",
	}
	c.Graded("grader", calibration.Grader{Key: key}, 900)
	assert.True(t, c.share("grader").IsNil(), "its errors are not known")
	require.NoError(t, calibrations.Dir(dir).Keep(r))
	c.forget("grader")
	c.Weight("grader")
	for range 50 {
		c.Graded("grader", calibration.Grader{Key: key, Models: []string{"m-1"}}, 500)
		c.Graded("grader", calibration.Grader{Key: key, Models: []string{""}}, 499)
	}
	c.Graded("grader", calibration.Grader{Key: "another judge"}, 900)
	c.Graded("grader", calibration.Grader{Key: key, Models: []string{"m-2"}}, 900)
	v := c.share("grader")
	assert.Equal(t, "100", v.Key("graded").String())
	assert.Equal(t, "50", v.Key("passed").String())
	assert.Equal(t, edn.MustRead("0.5000M"), v.Key("good").Key("rate"))
	for _, bound := range []string{"low", "high"} {
		assert.True(t, v.Key("good").Key(bound).IsNumber())
	}
	at := time.Now().Add(2 * rereadAfter)
	c.now = func() time.Time { return at }
	c.Weight("grader")
	assert.True(t, edn.Equal(v, c.share("grader")), "the file is the same")

	list := JudgesValue([]rescore.Status{{Judge: &registry.Judge{Name: "grader"}, Standing: calibration.Weak}, {Judge: &registry.Judge{Name: "other"}, Standing: calibration.Weak}}, c.share)
	var with []bool
	for s := range list.Key("judges").Elems() {
		with = append(with, s.HasKey("answers"))
	}
	assert.Equal(t, []bool{true, false}, with)

	r.Sensitivity, r.Specificity, r.At = 0.5, 0.5, r.At.Add(time.Second)
	require.NoError(t, calibrations.Dir(dir).Keep(r))
	c.forget("grader")
	c.Weight("grader")
	c.Graded("grader", calibration.Grader{Key: key}, 900)
	assert.Equal(t, "{:graded 1 :passed 1}", c.share("grader").String(), "no better than chance")
}
