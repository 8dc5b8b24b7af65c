package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// checkWorld has a capability of each kind that the static checks distinguish.
// The first node of every plan would leave a trace: its call kills the
// process.
func checkWorld(t testing.TB) *world {
	w := newWorld(t)
	w.write("ferment.hcl", scripted("all")+`
check "verified" {
  intent = "demo/verify"
}
intent "demo/verify" {
  in         = "req/any"
  out        = "res/any"
  candidates = []
}
intent "text/respond" {
  in  = "req/text"
  out = "res/text"
}
intent "num/add" {
  in  = "req/number"
  out = "res/number"
}
`)
	w.write("all.edn", `{:schemas {:req/number [:map {:closed true} [:n :int]] :res/number [:map {:closed true} [:n :int] [:s :string]]}
 :capabilities
 {:t/trace {:intents #{:demo/trace} :in-schema :req/any :out-schema :res/any :steps [{:crash :sigkill}]}
  :t/voice {:kind :llm :intents #{:text/respond} :in-schema :req/text :out-schema :res/text :steps [{:crash :sigkill}]}
  :t/add   {:intents #{:num/add} :in-schema :req/number :out-schema :res/number :steps [{:crash :sigkill}]}
  :fs/write {:intents #{:fs/write} :effects #{:fs/write} :in-schema :req/any :out-schema :res/any :steps [{:crash :sigkill}]}}}`)
	return w
}

// refusals are plans with errors, for every row of the table of static checks
// that this build has. A § marks each place that a finding names; the findings
// are in the order of their places (CHECK-001, CHECK-003).
var refusals = []struct {
	plan string
	want []string
}{
	{`{:op §:cal :as :x}`, []string{`CHECK-010 unknown op :cal in [:nodes 1 :op]; nearest is :call`}},
	{`{:op :emit
  §:inputt 1}`, []string{`CHECK-010 unknown key :inputt in [:nodes 1]; nearest is :input`}},
	{`{:op :call :intent :text/respond :input {:prompt "p"}
  :dispatch {§:candidate [:t/voice]}}`, []string{`CHECK-010 unknown key :candidate in [:nodes 1 :dispatch]; nearest is :candidates`}},
	{`{:op :call :intent :text/respond :input {:prompt "p"} §:session? true}`, []string{`CHECK-010 this build does not have :session?, remove it in [:nodes 1]`}},
	{`{:op :call
  :intent §:text/respnd :input {:prompt "p"}}`, []string{`CHECK-011 unknown intent :text/respnd in [:nodes 1 :intent]; nearest is :text/respond`}},
	{`{:op :call :intent :text/respond :input {:prompt "p"} :dispatch {:candidates [:t/voice §:t/voic]}}`, []string{`CHECK-012 unknown capability :t/voic in [:nodes 1 :dispatch :candidates 1]; nearest is :t/voice`}},
	{`{:op :let :value §{:cap/ref :t/voic} :as :h}
 {:op :emit :input :h}`, []string{`CHECK-012 unknown handle :t/voic in [:nodes 1 :value]; nearest is :t/voice`}},
	{`{:op :tool :tool/id §:fs/rite :effects {:allowed #{}}}`, []string{`CHECK-012 unknown tool :fs/rite in [:nodes 1 :tool/id]; nearest is :fs/write`}},
	{`{:op :call :intent :text/respond :input {:prompt "p"}
  :output {:schema §:res/txt}}`, []string{
		`CHECK-013 unknown schema :res/txt in [:nodes 1 :output :schema]; nearest is :res/text`}},
	{`{:op :call :intent :text/respond :input {:prompt "p"}
  :done {:must §#{:verifed}}}`, []string{`CHECK-014 unknown check :verifed in [:nodes 1 :done :must]; nearest is :verified`}},
	{`{:op :call :intent :text/respond :input {:prompt "p"}
  :dispatch {:retry {:same-cap-max §-1}} :done {:score-min §2 :must §:schema-valid} :deadline-ms §0}`, []string{
		`CHECK-015 wanted an integer from 0 to 16, got -1, in [:nodes 1 :dispatch :retry :same-cap-max]`,
		`CHECK-015 wanted a number from 0 to 1, got 2, in [:nodes 1 :done :score-min]`,
		`CHECK-015 wanted a set of keywords, got :schema-valid, in [:nodes 1 :done :must]; nearest is #{:schema-valid}`,
		`CHECK-015 wanted an integer from 1 to 86400000, got 0, in [:nodes 1 :deadline-ms]`}},
	{`§5
 §{}`, []string{`CHECK-015 wanted a map as a node, got 5, in [:nodes 1]`, `CHECK-015 a node needs :op in [:nodes 2]`}},
	{`{:op :let :id "a" :value 1 :as :x}
 {:op :let §:id "a" :value 2 §:as :x}
 {:op :emit :input :x}`, []string{`CHECK-016 duplicate :id "a" in [:nodes 2]; first at 2:12`, `CHECK-016 duplicate :as :x in [:nodes 2]; first at 2:29`}},
	{`{:op :emit :input {:text §{:slot/id :none}}}`, []string{`CHECK-017 slot :none is filled by no node, binding or default in [:nodes 1 :input :text]`}},
	{`{:op :plan :plan {:nodes [{:op :emit
    :input §:none}]}}`, []string{`CHECK-017 slot :none is filled by no node, binding or default in [:nodes 1 :plan :nodes 0 :input]`}},
	{`{:op :let :value §{:slot/id :y} :as :x}
 {:op :let :value {:n 1} :as :y} {:op :emit :input :x}`, []string{`CHECK-018 slot :y is filled later, by node 2 at 3:26; move the let or use :slot/default`}},
	{`{:op :let :id "a" :value 1 :as :x :needs ["b"]}
 §{:op :emit :id "b" :input :x}`, []string{`CHECK-019 nodes wait for each other: a -> b -> a`}},
	{`{:op :call :intent :num/add :input {:n 1} :as :x}
 {:op :call :intent :num/add :input {:n §{:slot/path [:x :s]}} :as :y} {:op :emit :input :y}`, []string{`CHECK-020 [:x :s] of schema :res/number is :string and can never fit :req/number, which wants :int, in [:nodes 2 :input :n]`}},
	{`{:op :call :intent :num/add :input {:n 1} :as :x}
 {:op :call :intent :text/respond :input §{:slot/path [:x :out]} :as :y} {:op :emit :input :y}`, []string{
		`CHECK-020 [:x :out] of schema :res/number is a map without [:prompt], [:text] or [:content] and can never fit :req/text, which wants text that is not blank there, in [:nodes 2 :input]`}},
	{`{:op :tool :tool/id :fs/write :input {:path "x"}
  :effects §{:allowed #{:none}}}`, []string{`CHECK-021 :fs/write is needed by :fs/write and not in [:nodes 1 :effects :allowed]`}},
	{`{:op :call :intent :text/respond :input {:prompt "p"} :done {:must §#{:verified}}}`, []string{`CHECK-022 nothing provides the must check :verified, which asks for :demo/verify, in [:nodes 1 :done :must]`}},
	{`{:op :call :intent §:demo/verify}`, []string{`CHECK-025 nothing serves :demo/verify in [:nodes 1 :intent]`}},
	{`{:op :call :intent :text/respond :input {:prompt "p"} :requires {:cap/kind §:solver}}`, []string{`CHECK-025 no candidate can serve :text/respond in [:nodes 1 :requires :cap/kind]: :t/voice is requires/cap-kind-mismatch`}},
	{`{:op :call :intent :text/respond :input {:prompt "p"}
  :dispatch {:retry {:same-cap-max §17 :fallback-max §33}}}`, []string{
		`CHECK-026 wanted an integer from 0 to 16, got 17, in [:nodes 1 :dispatch :retry :same-cap-max]`,
		`CHECK-026 wanted an integer from 0 to 32, got 33, in [:nodes 1 :dispatch :retry :fallback-max]`}},
	{`§{:op :map :over [1]}`, []string{`CHECK-027 a map needs :over and exactly one of :body and :fn in [:nodes 1]`}},
	{`{:op :call :intent :text/respond :input {:prompt "p"}
  :context {§:repair {} §:prompt "x"}}`, []string{`CHECK-028 only the host writes :repair in [:nodes 1 :context]`, `CHECK-028 only the host writes :prompt in [:nodes 1 :context]`}},
	{`{:op :call :intent :text/respond :input {:prompt "p"} :as :x}
 {:op :call :intent :text/respond :input {:prompt "p" :system §{:slot/path [:x :text]}}}`, []string{
		`CHECK-029 slot [:x :text] puts a result into the system prompt, which takes only text of the plan, in [:nodes 2 :input :system]`}},
}

// outOfScope lists the errors of features that this build does not have: worst
// cases of budgets, and effects under a race.
var outOfScope = []string{"CHECK-023", "CHECK-024"}

// marked removes the marks from a text and returns their places.
func marked(text string) (plain string, places []string) {
	line, column := 1, 1
	for _, r := range text {
		switch r {
		case '§':
			places = append(places, fmt.Sprintf("%d:%d", line, column))
			continue
		case '\n':
			line, column = line+1, 0
		}
		column++
		plain += string(r)
	}
	return plain, places
}

// TestRefused: check and run reject each of these plans, with line and column,
// before any plugin is started.
func TestRefused(t *testing.T) {
	t.Parallel()
	w := checkWorld(t)
	w.mustLock() // caches the description of the plugin
	covered := map[string]bool{}
	for i, row := range refusals {
		plain, places := marked("{:nodes [{:op :call :intent :demo/trace}\n " + row.plan + "]}\n")
		require.Len(t, places, len(row.want), row.plan)
		name := fmt.Sprintf("plan-%d.edn", i)
		w.write(name, plain)
		want := make([]string, len(places))
		for i, finding := range row.want {
			want[i] = fmt.Sprintf("%s:%s: error %s", name, places[i], finding)
			covered[strings.Fields(finding)[0]] = true
		}
		t.Run(strings.Fields(row.want[0])[0], func(t *testing.T) {
			t.Parallel()
			w := &world{t: t, dir: w.dir, env: w.env}
			checked := w.run("check", name)
			assert.Equal(t, 1, checked.code)
			assert.Equal(t, want, errorsOf(unwrapped(checked.stdout)))

			run := w.run("run", name)
			assert.Equal(t, 1, run.code)
			assert.Empty(t, run.stdout)
			assert.Equal(t, want, errorsOf(run.stderr))

			watched := w.run("run", name, "--progress", "edn", "-o", "edn")
			assert.Equal(t, 1, watched.code)
			assert.NotContains(t, watched.stderr, ":event", "nothing was started, let alone configured or called")
			problem := watched.value(t).Key("error")
			assert.Equal(t, "plan/invalid", word(problem.Key("type")))
			var found []string
			for f := range problem.Key("details").Key("findings").Elems() {
				if word(f.Key("severity")) == "error" {
					found = append(found, at(f))
				}
			}
			assert.Equal(t, places, found)
		})
	}
	for n := 10; n <= 29; n++ {
		id := fmt.Sprintf("CHECK-0%d", n)
		assert.NotEqual(t, slices.Contains(outOfScope, id), covered[id], id)
	}
	t.Cleanup(func() {
		_, err := os.Stat(filepath.Join(w.dir, "var", "work"))
		assert.ErrorIs(t, err, os.ErrNotExist, "no host got as far as to make room for plugins")
	})
}

// at returns the place of a finding.
func at(finding edn.Value) string {
	line, _ := finding.Key("line").AsInt()
	column, _ := finding.Key("column").AsInt()
	return fmt.Sprintf("%d:%d", line, column)
}

var shownError = regexp.MustCompile(`(?m)^error: (.*) \((CHECK-\d+)\)\n  --> (\S+)\n(?: +\d* \|.*\n)*(?:  next: did you mean (.*)\?\n)?`)

// errorsOf returns the findings that are errors, one per line.
func errorsOf(text string) []string {
	var out []string
	for _, m := range shownError.FindAllStringSubmatch(text, -1) {
		line := fmt.Sprintf("%s: error %s %s", m[3], m[2], m[1])
		if m[4] != "" {
			line += "; nearest is " + m[4]
		}
		out = append(out, line)
	}
	return out
}

// TestNoPlan: a text that is not a plan is a negative result with its place; a
// size above the limits is reported together with it (CHECK-004, CHECK-026).
func TestNoPlan(t *testing.T) {
	t.Parallel()
	w := checkWorld(t)
	w.write("number.edn", "5")
	w.write("nodes.edn", "{:nodes {}}")
	w.write("huge.edn", "{:nodes ["+strings.Repeat("{:op :let :value 1}\n", 1001)+"]}")
	for _, row := range []struct{ command, want string }{
		{"check number.edn", `number.edn:1:1: error CHECK-015`},
		{"run number.edn", `number.edn:1:1: error CHECK-015`},
		{"check nodes.edn", `nodes.edn:1:9: error CHECK-015`},
		{"run nodes.edn", `nodes.edn:1:9: error CHECK-015`},
		{"check huge.edn", `huge.edn:1:9: error CHECK-026`},
		{"run huge.edn", `huge.edn:1:9: error CHECK-026`},
	} {
		got := w.run(split(row.command)...)
		assert.Equal(t, 1, got.code, row.command)
		assert.Contains(t, strings.Join(errorsOf(got.stdout+got.stderr), "\n")+got.stderr, row.want, row.command)
		assert.Less(t, len(got.stdout+got.stderr), 64<<10)
	}
}

// CHECK-021: an effect that no request can add is not named as one to add, and a call whose candidates all need such an
// effect is an error without and with it.
func TestEffectsThatNoRequestAdds(t *testing.T) {
	t.Parallel()
	const text = ":in-schema :req/text :out-schema :res/text :steps [{:value {:text \"x\"}}]"
	w := newWorld(t, "ferment.hcl", testProfile+scripted("mine"),
		"mine.edn", `{:capabilities {:mine/net {:kind :solver :intents #{:t/all :t/some} :effects #{:net/http} `+text+`}
			:mine/pure {:kind :solver :intents #{:t/some} `+text+`}}}`,
		"all.edn", `{:nodes [{:op :call :intent :t/all :input {:prompt "x"}}]}`,
		"map.edn", `{:nodes [{:op :map :over [{:prompt "x"}] :fn {:cap/ref :mine/net} :intent :t/all :as :m} {:op :emit :input {:slot/path [:m]}}]}`,
		"some.edn", `{:nodes [{:op :call :intent :t/some :input {:prompt "x"}}]}`)
	w.mustLock()
	for _, args := range [][]string{{"check", "all.edn"}, {"check", "map.edn"}, {"check", "all.edn", "--effects", "net/http"}, {"run", "all.edn"}} {
		got := w.run(args...)
		assert.Equal(t, 1, got.code, args)
		assert.Contains(t, unwrapped(got.stdout)+got.stderr, "(CHECK-021)", args)
	}
	got := w.run("check", "some.edn", "--edn")
	assert.Zero(t, got.code, got.stdout)
	assert.Equal(t, "#{}", got.value(t).Key("effects").String())
}

// CHECK-021, CLI-002: check reports the effects that a run may need, and run
// reports the same error without them; both explain how to allow an effect.
func TestEffectsOfAPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ferment.hcl", testProfile+shipped("tools", "tools")+`
effects {
  scope "fs/write" {
    enabled   = true
    roots     = ["."]
    allow     = ["out"]
    max_bytes = 10
  }

  rule "fs/write" {
    any = ["user", "admin"]
  }
}
`,
		"plan.edn", `{:nodes [{:op :call :intent :fs/write-file :input {:path "out" :content "short"} :as :w} {:op :emit :input {:bytes {:slot/path [:w :bytes]}}}]}`,
		"long.edn", `{:nodes [{:op :call :intent :fs/write-file :input {:path "out" :content "longer than ten bytes"} :as :w} {:op :emit :input :w}]}`)
	w.mustLock()
	got := w.run("check", "plan.edn")
	assert.Equal(t, 0, got.code, got.stderr)
	assert.Contains(t, got.stdout, "it may need --effects fs/write")
	assert.Equal(t, "#{:fs/write}", w.run("check", "plan.edn", "--edn").value(t).Key("effects").String())
	const how = "`--effects fs/write` on the command line"
	for _, args := range [][]string{{"check", "plan.edn", "--effects", "fs/read"}, {"run", "plan.edn"}} {
		got = w.run(args...)
		assert.Equal(t, 1, got.code, args)
		assert.Contains(t, unwrapped(got.stdout)+got.stderr, "(CHECK-021)", args)
		assert.Contains(t, unwrapped(got.stdout)+got.stderr, how, args)
	}
	got = w.run("act", "fs/write-file", `{:path "out" :content "short"}`)
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.stderr, how)
	s := w.serve()
	got = w.run("act", "fs/write-file", `{:path "out" :content "short"}`, "--edn")
	s.stop()
	assert.Equal(t, 1, got.code)
	refused, err := edn.ReadString(got.stdout + got.stderr)
	require.NoError(t, err)
	assert.Equal(t, ":unsupported/intent", refused.Key("error").Key("type").String())
	assert.False(t, refused.HasKey("run/id"), "RUN-002: it was refused before it was a run")
	for _, verb := range []string{"check", "run"} {
		got = w.run(verb, "plan.edn", "--effects", "fs/write")
		assert.Equal(t, 0, got.code, got.stderr)
		assert.NotContains(t, got.stdout, "may need")
		got = w.run(verb, "plan.edn", "--effects", "fs/wrte")
		assert.Equal(t, 2, got.code)
		assert.Contains(t, got.stderr, "did you mean fs/write?")
		got = w.run(verb, "long.edn", "--effects", "fs/write")
		assert.Equal(t, 1, got.code)
		assert.Contains(t, got.stdout+got.stderr, "the limit is 10")
	}
}

// CHECK-004, CLI-002: a syntax error has the format of a finding, with file
// and place in every output format.
func TestSyntaxOfAPlan(t *testing.T) {
	t.Parallel()
	w := checkWorld(t)
	w.write("cut.edn", "{:nodes [{:op :emit\n")
	w.write("json.edn", `{"nodes": [{"op": "emit"}]}`)
	for _, verb := range []string{"check", "run", "graph"} {
		got := w.run(verb, "cut.edn")
		assert.Equal(t, 1, got.code, verb)
		assert.Regexp(t, `^error: .* \(edn/invalid\)\n  --> cut\.edn:2:1\n +2 \| *\n +\| \^\n`, got.stdout+got.stderr, verb)
		got = w.run(verb, "json.edn")
		assert.Equal(t, 1, got.code, verb)
		assert.Contains(t, got.stdout+got.stderr, "JSON", verb)
	}
	got := w.run("check", "cut.edn", "--edn")
	assert.Equal(t, 1, got.code)
	assert.Empty(t, got.stderr)
	v := got.value(t)
	assert.Equal(t, "cut.edn", plain(v.Key("file")))
	finding, _ := v.Key("findings").Nth(0)
	assert.Equal(t, "2:1", at(finding))
	got = w.run("run", "cut.edn", "--edn")
	assert.Equal(t, 1, got.code)
	v, err := edn.ReadString(got.stderr)
	require.NoError(t, err)
	where := v.Key("error").Key("where")
	assert.Equal(t, "cut.edn", plain(where.Key("file")))
	assert.Equal(t, "2:1", at(where))
}

// CLI-002: a run that started and failed is a negative result, even if an
// input was wrong.
func TestExitOfAStartedRun(t *testing.T) {
	t.Parallel()
	w := answering(t)
	w.write("late.edn", `{:nodes [{:op :call :intent :mine/data :as :a}
 {:op :call :intent :mine/data :input {:slot/path [:a :n]} :as :b} {:op :emit :input :b}]}`)
	here := w.run("run", "late.edn")
	s := w.serve()
	there := w.run("run", "late.edn", "--edn")
	s.stop()
	assert.Equal(t, 1, here.code, here.stderr)
	assert.Equal(t, 1, there.code, there.stderr)
	assert.True(t, there.value(t).HasKey("run/id"), there.stdout)
}

// CHECK-021: a request cannot allow an effect that the configuration disables.
func TestDisabledEffects(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ferment.hcl", testProfile+shipped("tools", "tools"),
		"plan.edn", `{:nodes [{:op :call :intent :fs/write-file :input {:path "out" :content "short"} :as :w} {:op :emit :input :w}]}`)
	w.mustLock()
	for _, args := range []string{"run plan.edn", "check plan.edn --effects fs/read", "run plan.edn --effects fs/write"} {
		got := w.run(split(args)...)
		assert.Equal(t, 1, got.code, args)
		assert.Contains(t, got.stdout+got.stderr, "in ferment.hcl", args)
		assert.NotContains(t, got.stdout+got.stderr, "--effects", args)
	}
}

// CHECK-004, CLI-002: every plan is checked, even after an unreadable one,
// whose exit code has precedence.
func TestCheckOfSeveralPlans(t *testing.T) {
	t.Parallel()
	w := checkWorld(t)
	w.write("good.edn", `{:nodes [{:op :emit :input 1}]}`)
	w.write("bad.edn", `{:nodes [{:op :emt}]}`)
	w.write("broken.edn", `{:nodes [`)
	for _, row := range []struct {
		args string
		code int
		good bool
	}{
		{"good.edn good.edn", 0, true},
		{"bad.edn good.edn", 1, true},
		{"broken.edn good.edn", 1, true},
		{"absent.edn good.edn", 3, true},
		{"absent.edn bad.edn good.edn", 3, true},
		{"bad.edn absent.edn", 3, false},
	} {
		got := w.run(append([]string{"check"}, split(row.args)...)...)
		assert.Equal(t, row.code, got.code, row.args)
		assert.Equal(t, row.good, strings.Contains(got.stdout, "good.edn: ok"), row.args)
		assert.Equal(t, strings.Contains(row.args, "bad"), len(errorsOf(got.stdout)) > 0, row.args)
		assert.Equal(t, strings.Contains(row.args, "absent"), strings.Contains(got.stderr, "absent.edn"), row.args)
	}
}

// CLI-002: a binding that no node reads is a usage error, unless an answer may
// be a plan that reads it.
func TestUnknownBindings(t *testing.T) {
	t.Parallel()
	w := checkWorld(t)
	w.write("plan.edn", `{:bindings {:given 1} :nodes [
 {:op :plan :as :p :plan {:nodes [{:op :emit :input {:slot/id :inner :slot/default 1}}]}}
 {:op :emit :input [{:slot/id :title :slot/default "t"} {:slot/id :given} {:slot/id :p}]}]}`)
	w.write("other.edn", `{:nodes [{:op :emit :input {:slot/id :other :slot/default 1}}]}`)
	w.write("bad.edn", `{:nodes [`)
	for _, row := range []struct {
		args string
		code int
		near string
	}{
		{"check plan.edn --bind title=1", 0, ""},
		{"check plan.edn --bind given=1", 0, ""},
		{"check plan.edn --bind inner=1", 0, ""},
		{"check plan.edn --bind titel=1", 2, "title"},
		{"check plan.edn --bind gven=1", 2, "given"},
		{"check plan.edn --bind title=1 --bind zzzzzz=1", 2, ""},
		{"check plan.edn --bind p=1", 2, ""},
		{"check plan.edn other.edn --bind other=1", 0, ""},
		{"check plan.edn other.edn --bind othr=1", 2, "other"},
		{"check bad.edn --bind other=1", 1, ""},
		{"run plan.edn --bind title=1", 0, ""},
		{"run plan.edn --bind titel=1", 2, "title"},
	} {
		got := w.run(split(row.args)...)
		assert.Equal(t, row.code, got.code, row.args+got.stderr)
		if row.near != "" {
			assert.Contains(t, got.stderr, "did you mean "+row.near+"?", row.args)
		}
	}
	w.write("plan.edn", `{:nodes [{:op :call :intent :num/add :input {:n 1} :as :x} {:op :emit :input :x}]}`)
	assert.Equal(t, 2, w.run("check", "plan.edn", "--bind", "m=1").code)
	assert.Equal(t, 2, w.run("run", "plan.edn", "--bind", "m=1").code, "before the call ends the process")
	script, err := os.ReadFile(filepath.Join(w.dir, "all.edn"))
	require.NoError(t, err)
	_, add, _ := strings.Cut(string(script), ":t/add")
	w.write("all.edn", strings.Replace(string(script), add, strings.Replace(add, "{:crash :sigkill}",
		"{:value {:n 1 :s \"\"}} {:plan {:nodes []}}", 1), 1))
	got := w.run("check", "plan.edn", "--bind", "m=1")
	assert.Equal(t, 0, got.code, "its answer may be a plan: "+got.stdout+got.stderr)
}

// CLI-002: the daemon rejects a plan with the same messages as this process,
// with the places in its text.
func TestRefusalsOfADaemon(t *testing.T) {
	t.Parallel()
	w := answering(t)
	w.write("key.edn", `{:nodes [{:op :call :intnet :mine/data :as :a}
 {:op :emit :input {:slot/id :b}}]}`)
	w.write("word.edn", `{:nodes [{:op :let :value 1 :as "b"} {:op :emit :input :ghost}]}`)
	w.write("list.edn", `[{:nodes []}]`)
	w.write("number.edn", "{:nodes\n 7}")
	w.write("items.edn", "{:nodes [7]}")
	w.write("bindings.edn", "{:bindings 7 :nodes []}")
	w.write("listed.edn", "{:bindings [1] :nodes []}")
	w.write("warned.edn", `{:nodes [{:op :let :value 1 :as :unused} {:op :call :intent :mine/dta :as :a} {:op :emit :input :a}]}`)
	w.write("plan.edn", `{:nodes [{:op :emit :input {:slot/id :title :slot/default "t"}}]}`)
	s := w.serve()
	for _, row := range []struct {
		args  string
		place string
	}{
		{"run key.edn", "key.edn:1:21"},
		{"run word.edn", "word.edn:1:33"},
		{"run list.edn", "list.edn:1:1"},
		{"run number.edn", "number.edn:2:2"},
		{"run items.edn", "items.edn:1:10"},
		{"run bindings.edn", "bindings.edn:1:12"},
		{"run listed.edn", "listed.edn:1:12"},
		{"run warned.edn", "warned.edn:1:61"},
		{"run number.edn --json", `"line":2`},
		{"run key.edn --json", `"line":1`},
		{"run warned.edn --edn", ":line 1"},
	} {
		here, there := w.run(split(row.args+" --local")...), w.run(split(row.args)...)
		assert.Equal(t, 1, there.code, row.args+there.stderr)
		assert.Equal(t, here.code, there.code, row.args)
		assert.Equal(t, here.stderr, there.stderr, row.args)
		assert.Equal(t, findings(t, here), findings(t, there), row.args)
		assert.Contains(t, there.stdout+there.stderr, row.place, row.args)
	}
	for _, flag := range []string{"", " --local"} {
		got := w.run(split("run plan.edn --bind titel=1" + flag)...)
		assert.Equal(t, 2, got.code, flag+got.stderr)
		assert.Regexp(t, "titel.*\n?.*did you mean :?title", strings.ReplaceAll(got.stderr, "\n", " "), flag)
		assert.Equal(t, 0, w.run(split("run plan.edn --bind title=1"+flag)...).code)
	}
	s.stop()
}

// findings returns the findings in an error that was printed as data, "" for
// text.
func findings(t testing.TB, got ended) string {
	if got.stdout == "" {
		return ""
	}
	if strings.HasPrefix(got.stdout, `{"`) {
		var all struct{ Error struct{ Details, Where any } }
		require.NoError(t, json.Unmarshal([]byte(got.stdout), &all))
		return fmt.Sprint(all.Error.Details, all.Error.Where)
	}
	e := got.value(t).Key("error")
	return e.Key("details").String() + e.Key("where").String()
}

// CHECK-001: errors of a plan in JSON have positions too, in check, run and graph.
func TestPlacesInAPlanOfJSON(t *testing.T) {
	t.Parallel()
	w := checkWorld(t)
	w.mustLock()
	w.write("plan.json", "{\"nodes\": [\n  {\"op\": \"call\", \"intent\": \"text/respnd\", \"as\": \"x\"},\n  {\"op\": \"emit\", \"input\": {\"slot/id\": \"x\"}}]}\n")
	for _, verb := range []string{"check", "run", "graph"} {
		got := w.run(verb, "plan.json")
		assert.Equal(t, 1, got.code, verb)
		assert.Contains(t, got.stdout+got.stderr, "plan.json:2:28\n", verb)
	}
}
