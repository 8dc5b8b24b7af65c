package dispatch_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// models returns a world with n language models.
func models(t testing.TB, n int) *dispatchtest.World {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("{:cap/id :t/%c :cap/kind :llm :cap/intents #{:text/respond :model/chat} :io/in-schema :req/any :io/out-schema :res/any :cap/repairs? true}", 'a'+i))
	}
	return dispatchtest.New(t, dispatchtest.Spec{Caps: all})
}

func constrained(l policy.Layer, constraints string) policy.Layer {
	l.Constraints = policy.FieldsOf(edn.MustRead(constraints), here)
	return l
}

// TXT-004: a call in the text ends an answer as other calls do, in its metadata too.
func TestFinishOfACallInTheText(t *testing.T) {
	const tools = `{:prompt "p" :tools [{:tool/id :fs/read}]}`
	for answer, want := range map[string]string{
		`{:text "<tool_call>{\"name\":\"fs_read\"}</tool_call>" :finish :stop}`:   ":tool-calls",
		`{:text "<tool_call>{\"name\":\"fs_read\"}</tool_call>" :finish :length}`: ":length",
		`{:text " Yes." :finish :stop}`:                                           ":stop",
	} {
		w := models(t, 1)
		step := out(answer)
		step.Meta = edn.MustMap(edn.K("finish"), step.Value.Key("finish"))
		w.On("t/a", step)
		s := serve(t, w, order{layer: retries(0, 0), input: tools})
		require.Empty(t, s.failure())
		assert.Equal(t, want, s.Out.Key("finish").String(), answer)
		assert.Equal(t, want, s.Meta.Key("finish").String(), answer)
	}
}

// TXT-001, TXT-003, TXT-004, TXT-005: the answer of a model is cleaned, other
// answers and the strings of a value are not.
func TestModelsAreCleaned(t *testing.T) {
	const tools = `{:prompt "p" :tools [{:tool/id :fs/read}]}`
	const schema = `{:messages [{:role :user :content "p"}] :output {:schema [:map [:n :int]]}}`
	value := func(s string) string { return edn.MustMap(edn.K("text"), edn.Text(s)).String() }
	for name, tc := range map[string]struct {
		answer, input, limits string
		want, fails           string
		intent, mode          string
	}{
		"a tag in JSON":         {answer: value(`{"text":"<think> opens","n":1}`), want: value(`{"text":"<think> opens","n":1}`)},
		"a closing tag in JSON": {answer: value(`<think>{"n":0}</think> {"a":"the </think> tag","n":1}`), want: value(`{"a":"the </think> tag","n":1}`)},
		"a call is a value":     {answer: value(`{"tool_calls":[{"name":"a"}],"n":1}`), input: schema, intent: "model/chat", want: value(`{"tool_calls":[{"name":"a"}],"n":1}`)},
		"a value is not cut":    {answer: value(`{"text":"One two three. Four five six.","n":1}`), input: schema, intent: "model/chat", limits: `{:max-chars 18}`, want: value(`{"text":"One two three. Four five six.","n":1}`)},
		"a call beside tools":   {answer: value(`{"tool_calls":[{"name":"a"}],"n":1}`), input: `{:tools [{:tool/id "b"}] :output {:schema :map}}`, intent: "model/chat", fails: "format/drift"},
		"reasoning about JSON":  {answer: value("Maybe {\"n\":0}.</think>\n{\"n\":1}"), input: schema, intent: "model/chat", want: value(`{"n":1}`)},
		"a value of the adapter": {
			answer: `{:answer "ends with </think>" :text "<tool_call>\u0000"}`, mode: "native", want: `{:answer "ends with </think>" :text "<tool_call>"}`,
		},
		"reasoning goes":              {answer: `{:text "<think>hm</think>\n\nYes."}`, want: `{:text "Yes."}`},
		"other prose too":             {answer: `{:summary " a " :n 1}`, want: `{:n 1 :summary "a"}`},
		"code is taken as it is":      {answer: `{:code "<think>\n"}`, want: `{:code "<think>\n"}`},
		"nothing is left":             {answer: `{:text "<think>hm</think> "}`, fails: "provider/empty"},
		"nothing was said":            {answer: `{:text ""}`, fails: "provider/empty"},
		"nothing but an unclosed tag": {answer: `"<think>hm"`, fails: "provider/empty"},
		"an optional text is blank":   {answer: `{:n 1 :explanation ""}`, want: `{:explanation "" :n 1}`},
		"calls say enough":            {answer: `{:text "" :tool/calls [{:id "1"}]}`, want: `{:text "" :tool/calls [{:id "1"}]}`},
		"code says enough":            {answer: `{:text "" :code "x"}`, want: `{:code "x" :text ""}`},
		"an unrequested call":         {answer: `{:text "<tool_call>{\"name\":\"fs/read\"}</tool_call>"}`, fails: "format/drift"},
		"a call that is offered":      {answer: `{:text "Let me see. <tool_call>{\"name\":\"fs_read\",\"arguments\":{\"path\":\"a\"}}</tool_call>"}`, input: tools, want: `{:text "Let me see." :tool/calls [{:id "1r0ir9pme" :args {:path "a"} :tool/id :fs/read}]}`},
		"a call that is quoted":       {answer: `{:text "It says <tool_call>{\"name\":\"fs_read\",\"arguments\":{}}</tool_call>, but no."}`, input: tools, fails: "format/drift"},
		"a call of another tool":      {answer: `{:text "{\"tool_calls\":[{\"name\":\"rm\"}]}"}`, input: tools, fails: "format/drift"},
		"a call that is none":         {answer: `{:text "<tool_call>later</tool_call>"}`, input: tools, fails: "format/drift"},
		"a call in a fence":           {answer: `{:text "` + "```\\n<tool_call>\\n```" + `"}`, want: `{:text "` + "```\\n<tool_call>\\n```" + `"}`},
		"cut":                         {answer: `{:text "One two three. Four five six."}`, limits: `{:max-chars 18}`, want: `{:text "One two three."}`},
		"structure is not cut":        {answer: `{:answer "One two three. Four five six."}`, limits: `{:max-chars 18}`, want: `{:answer "One two three. Four five six."}`},
		"blank lines":                 {answer: `{:text "a\n\n\n\nb"}`, want: `{:text "a\n\nb"}`},
		"the default":                 {answer: `{:text "` + strings.Repeat("Twelve chars", 101) + `"}`, want: `{:text "` + strings.Repeat("Twelve chars", 99) + `Twelve…"}`},
	} {
		w := models(t, 1)
		step := out(tc.answer)
		if tc.mode != "" {
			step.Meta = edn.MustMap(edn.K("format/mode"), edn.K(tc.mode))
		}
		w.On("t/a", step)
		layer := retries(0, 0)
		if tc.limits != "" {
			layer = constrained(layer, tc.limits)
		}
		s := serve(t, w, order{layer: layer, input: tc.input, intent: tc.intent})
		assert.Equal(t, tc.fails, s.failure(), name)
		for _, r := range s.records {
			if f, ok := r.Body.(*journal.AttemptFinished); ok && (tc.fails != "" || !edn.Equal(edn.MustRead(tc.answer), edn.MustRead(tc.want))) {
				assert.True(t, f.Raw.Set(), "%s: the raw answer is in the journal", name)
				assert.Equal(t, tc.fails == "", f.Result.Set(), name)
			}
		}
		if tc.fails == "" {
			assert.True(t, edn.Equal(edn.MustRead(tc.want), s.Out), "%s: %s", name, s.Out)
			cut, _ := s.Meta.Key("text/cut?").AsBool()
			assert.Equal(t, name == "cut" || name == "the default", cut, name)
		}
	}
	w := world(t, "")
	w.On("t/a", out(`{:text " <think>x"}`))
	assert.Equal(t, `{:text " <think>x"}`, serve(t, w, order{layer: retries(0, 0)}).Out.String())
}

// REP-004: the repair request holds the answer without its reasoning.
func TestDriftIsRepaired(t *testing.T) {
	w := models(t, 1)
	w.On("t/a", out(`{:text "<think>x</think><tool_call>{}</tool_call>"}`), out(`{:text "Yes."}`))
	layer := retries(0, 0)
	layer.RepairMax = policy.Of(1, here)
	s := serve(t, w, order{layer: layer})
	require.Empty(t, s.failure())
	assert.Equal(t, "<tool_call>{}</tool_call>", text(w.Calls()[1].Request.Key("context").Key("repair").Key("previous")))
}

func text(v edn.Value) string {
	s, _ := v.AsString()
	return s
}

// TXT-002, STR-001: the stream of a model is cleaned under every policy.
func TestStreamsAreCleaned(t *testing.T) {
	for name, tc := range map[string]struct {
		how   string
		a     dispatchtest.Step
		shown string
		fails string
	}{
		"a value": {policy.FirstToken, says(`{"tool_calls":"</th`, `ink>. One two `, `three four five six"}`),
			`first-token 1{"tool_calls":"</th 1ink>. One two 1 three four five six"}`, ""},
		"a block":                     {policy.FirstToken, says("<th", "ink>hm</think>", "Yes", ", it is."), "first-token 1Yes 1, it is.", ""},
		"blanks wait":                 {policy.FirstToken, says("\nYes.\n", "\n\n\n", "No. \n"), "first-token 1Yes. 1\n\nNo.", ""},
		"an unopened block":           {policy.Provisional, says("hm", "</think>", "Yes."), "provisional 1!hm 1xstream/malformed 1!Yes.", ""},
		"and shown for good":          {policy.FirstToken, says("hm", "</think>", "Yes."), "first-token 1hm", "stream/truncated"},
		"hidden until the gates pass": {policy.GatePassed, says("<think>hm</think>", "Yes."), "gate-passed 1Yes.", ""},
		"nothing is left":             {policy.FirstToken, says("<think>hm</think>", "\n"), "first-token", "provider/empty"},
		"the end waits for the limit": {policy.FirstToken, says("One two three. ", "Four five six. ", "Seven."), "first-token 1One two three. 1 Four 1 five six.", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := models(t, 1)
			w.On("t/a", tc.a)
			o := order{layer: constrained(streaming(tc.how, retries(0, 0)), `{:max-chars 30}`), streams: true}
			if name == "a value" {
				o.intent, o.input = "model/chat", `{:messages [{:role :user :content "p"}] :output {:schema :map}}`
			}
			s := serve(t, w, o)
			assert.Equal(t, tc.fails, s.failure(), name)
			assert.Equal(t, tc.shown, s.shown(), name)
			if tc.fails == "" {
				assert.Equal(t, text(s.Out.Key("text")), s.text(), name)
			}
		})
	}
}

// TXT-007, GATE-009: the answer of a model does not decide whether tests pass.
func TestModelsDoNotReportTests(t *testing.T) {
	runner := func(id, kind string) string {
		return "{:cap/id :" + id + " :cap/kind :" + kind + " :cap/intents #{:code/test} :io/in-schema :req/any :io/out-schema :res/any}"
	}
	check := quality.Check{Check: registry.Check{Name: registry.TestsPass, Kind: registry.CheckCapability, Intent: "code/test", Evidence: true}}
	w := dispatchtest.New(t, dispatchtest.Spec{Caps: append(caps(""), runner("t/model", "llm"), runner("t/runner", "test")), Checks: []quality.Check{check}})
	w.On("t/a", out(`{:text "x"}`))
	w.On("t/model", out(`{:tests/pass? true :passed 9}`))
	w.On("t/runner", out(`{:tests/pass? true :passed 0}`), out(`{:tests/pass? true :passed 1}`))
	layer := mustPass(retries(0, 0), registry.TestsPass)
	assert.Equal(t, "eval/must-failed", serve(t, w, order{layer: layer}).failure(), "no test was run")
	assert.Empty(t, serve(t, w, order{layer: layer}).failure())
	for _, c := range w.Calls() {
		assert.NotEqual(t, "t/model", c.CapID)
	}
}
