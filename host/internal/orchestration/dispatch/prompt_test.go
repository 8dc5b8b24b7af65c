package dispatch_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/prompt"
	"github.com/fermenthq/ferment/host/internal/domain/quality"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

func promptLayer(t testing.TB, name, text string) *prompt.Layer {
	l, problems := prompt.NewLayer(name, "", []string{text})
	require.Empty(t, problems)
	return l
}

// modelsWithRoles returns two models with different roles and a capability that
// is not a model.
func modelsWithRoles(t testing.TB) *dispatchtest.World {
	w := dispatchtest.New(t, dispatchtest.Spec{Caps: []string{
		`{:cap/id :t/a :cap/kind :llm :cap/role :solver :cap/intents #{:text/respond :model/chat} :io/in-schema :req/any :io/out-schema :res/any :cap/repairs? true}`,
		`{:cap/id :t/b :cap/kind :llm :cap/intents #{:text/respond :model/chat} :io/in-schema :req/any :io/out-schema :res/any}`,
		dispatchtest.Cap("t/c", ""),
		`{:cap/id :t/d :cap/kind :tool :cap/intents #{:conversation/send} :io/in-schema :req/any :io/out-schema :res/any}`,
	}})
	w.Dispatcher.Prompts = &prompt.Book{
		Default: promptLayer(t, "prompts.default", "You are part of a program."),
		Roles:   map[string]*prompt.Layer{"solver": promptLayer(t, "prompts.roles.solver", "Solve."), "voice": promptLayer(t, "prompts.roles.voice", "Speak.")},
	}
	return w
}

// LM-009, RTE-003: each attempt has the prompt of its own candidate; other
// capabilities get none.
func TestPromptOfEachAttempt(t *testing.T) {
	w := modelsWithRoles(t)
	w.On("t/a", fails("provider/unavailable")).On("t/b", fails("provider/unavailable")).On("t/c", out(`{:text "x"}`))
	r := serve(t, w, order{layer: retries(0, 2), input: `{:prompt "p"}`})
	require.Nil(t, r.Err)
	var systems []string
	for i, c := range w.Calls() {
		asked := c.Request.Key("context").Key("prompt")
		system, _ := asked.Key("system").AsString()
		systems = append(systems, system+" "+c.Request.Key("role").String())
		if i < 2 {
			assert.Equal(t, `[{:content "p" :role :user}]`, asked.Key("messages").String())
		}
	}
	assert.Equal(t, []string{"You are part of a program.\n\nSolve. :solver", "You are part of a program.\n\nSpeak. :voice", " nil"}, systems)
	assert.False(t, r.Meta.HasKey("prompt/hash"), "no prompt was composed for the winner")
}

// LM-009: a model takes the input of a chat or an embedding as it is, without a
// prompt; other intents have one.
func TestInputsWithoutPrompt(t *testing.T) {
	for intent, composed := range map[string]bool{"text/respond": true, "model/chat": false, "model/embed": false} {
		w := dispatchtest.New(t, dispatchtest.Spec{Caps: []string{
			`{:cap/id :t/a :cap/kind :llm :cap/intents #{:` + intent + `} :io/in-schema :req/any :io/out-schema :res/any}`,
		}})
		w.Dispatcher.Prompts = &prompt.Book{Default: promptLayer(t, "prompts.default", "You are part of a program.")}
		w.On("t/a", out(`{:text "x"}`))
		r := serve(t, w, order{intent: intent, input: `{:texts ["a"]}`})
		require.Nil(t, r.Err, intent)
		asked := w.Calls()[0].Request.Key("context").Key("prompt")
		assert.Equal(t, composed, !asked.IsNil(), intent)
	}
}

// PRM-001: the role of the request or node overrides that of a capability.
func TestRoleOfTheCallGoesFirst(t *testing.T) {
	w := modelsWithRoles(t)
	w.On("t/a", dispatchtest.Step{Value: edn.MustRead(`{:text "x"}`)})
	r := serve(t, w, order{layer: policy.Layer{Role: policy.Of("voice", here)}})
	require.Nil(t, r.Err)
	sent := w.Calls()[0].Request
	assert.Equal(t, ":voice", sent.Key("role").String())
	assert.Equal(t, ":voice", r.Meta.Key("role").String())
	assert.Equal(t, sent.Key("context").Key("prompt").Key("hash"), r.Meta.Key("prompt/hash"), "the hash is that of the composed prompt")
}

// PRM-004, LLM-044: a repair adds the last answer and its findings; the
// question stays the same, and the request does not grow.
func TestRepairIsComposed(t *testing.T) {
	w := modelsWithRoles(t)
	w.On("t/a", out(`{:text "first answer"}`), out(`{:text "second answer"}`), out(`{:text "Third."}`))
	w.Dispatcher.Checks = judging(t, "third", func(s quality.Subject) quality.Outcome {
		if text, _ := s.Result.Key("text").AsString(); text == "Third." {
			return quality.Passed()
		}
		return quality.Failed(quality.Finding{Message: "is not the third"})
	})
	r := serve(t, w, order{layer: policy.Layer{RepairMax: policy.Of(3, here), Must: policy.NamesOf(here, "third")}})
	require.Nil(t, r.Err)
	calls := w.Calls()
	require.Len(t, calls, 3)
	var hashes, last []string
	for _, c := range calls {
		asked := c.Request.Key("context").Key("prompt")
		hashes = append(hashes, asked.Key("hash").String())
		last = append(last, asked.Key("messages").String())
	}
	assert.Equal(t, []string{hashes[0], hashes[0], hashes[0]}, hashes)
	assert.Equal(t, `[{:content "p" :role :user}]`, last[0])
	assert.Contains(t, last[1], "first answer")
	assert.Contains(t, last[1], "is not the third")
	assert.Contains(t, last[2], "second answer")
	assert.NotContains(t, last[2], "first answer", "only the last answer is sent")
	assert.Len(t, last[2], len(last[1])+1, "second is one letter longer than first")
}

// judging returns a set with one check of the test.
func judging(t testing.TB, name string, judge func(quality.Subject) quality.Outcome) *quality.Set {
	c := quality.Check{Judge: judge}
	c.Name, c.Kind = name, "condition"
	set, err := quality.NewSet(c)
	require.NoError(t, err)
	return set
}

// PRM-003: a caller without permission to override system prompts is rejected
// before any call; with permission it replaces the layers.
func TestOverriding(t *testing.T) {
	denied := policy.ShippedAccess().Denied(policy.OverridePrompt, policy.Caller{Roles: []string{policy.RoleUser}})
	require.NotNil(t, denied)
	assert.Nil(t, policy.ShippedAccess().Denied(policy.OverridePrompt, policy.Caller{Roles: []string{policy.RoleOperator}}))
	assert.NotNil(t, (*policy.Access)(nil).Denied(policy.OverridePrompt, policy.Caller{Roles: []string{policy.RoleAdmin}}), "denied without a rule")
	for name, tc := range map[string]struct {
		intent, system, input string
		capID                 string
		foreign               bool
		blocked               bool
	}{
		"of the call":                  {system: "Mine.", input: `{:prompt "p"}`, blocked: true},
		"of the input":                 {input: `{:prompt "p" :system "Mine."}`, blocked: true},
		"of a message":                 {input: `{:messages [{:role :system :content "Mine."}]}`, blocked: true},
		"none":                         {input: `{:prompt "p"}`},
		"a conversation":               {intent: "model/chat", input: `{:messages [{:role :system :content "Mine."}]}`},
		"beside a conversation":        {intent: "model/chat", input: `{:system "Mine." :messages [{:role :user :content "p"}]}`, blocked: true},
		"of a kept conversation":       {intent: "conversation/send", input: `{:text "p" :system "Mine."}`, blocked: true},
		"a message that is kept":       {intent: "conversation/send", input: `{:messages [{:role :system :content "Mine."}]}`},
		"none of a kept conversation":  {intent: "conversation/send", input: `{:text "p"}`},
		"in a plan that was an answer": {system: "Mine.", input: `{:prompt "p"}`, foreign: true, blocked: true},
	} {
		for _, may := range []bool{false, true} {
			w := modelsWithRoles(t)
			w.On("t/a", out(`{:text "x"}`)).On("t/d", out(`{:text "x"}`))
			if tc.intent == "" {
				tc.intent = "text/respond"
			}
			p, err := policy.Layer{}.Resolve()
			require.NoError(t, err)
			run := &dispatch.Run{ID: "run_test", Trace: edn.MustRead(`{:id "t"}`), Recorder: dispatchtest.NewRecords(t), Grant: dispatchtest.Open().Grant(policy.Caller{}), Base: t.Context(), Overriding: denied}
			if may {
				run.Overriding = nil
			}
			r := w.Dispatcher.Serve(t.Context(), run, &dispatch.Work{
				Op: "call", Node: "n", Path: edn.Vector(edn.Int(0)), Intent: tc.intent, Policy: w.Dispatcher.CallPolicy(p, tc.intent, ""),
				Input: edn.MustRead(tc.input), System: tc.system, Foreign: tc.foreign,
			})
			if tc.blocked && (!may || tc.foreign) {
				require.NotNil(t, r.Err, name)
				assert.Equal(t, "policy/blocked", r.Err.Type, name)
				assert.Equal(t, ":prompt/override", r.Err.Details.Key("operation").String(), name)
				assert.Empty(t, w.Calls(), name)
				continue
			}
			require.Nil(t, r.Err, name)
			asked := w.Calls()[0].Request.Key("context").Key("prompt")
			switch {
			case tc.intent != "text/respond":
				assert.True(t, asked.IsNil(), "nothing is composed for a conversation")
			case tc.system != "" || edn.MustRead(tc.input).HasKey("system"):
				assert.Equal(t, `"Mine."`, asked.Key("system").String(), name)
				assert.Equal(t, `[{:name "call"}]`, asked.Key("layers").String(), name)
			}
		}
	}
}

// TXT-007: the check for a leaked prompt sees the prompt that was composed.
func TestChecksSeeTheComposedPrompt(t *testing.T) {
	w := modelsWithRoles(t)
	w.Dispatcher.Prompts.Default = promptLayer(t, "d", "You answer questions about the opening hours of the municipal library and about nothing else at all.")
	w.On("t/a", out(`{:text "I answer questions about the opening hours of the municipal library and about nothing else at all."}`))
	r := serve(t, w, order{layer: policy.Layer{Must: policy.NamesOf(here, "no-prompt-leak")}})
	require.NotNil(t, r.Err)
	assert.Equal(t, "eval/must-failed", r.Err.Type)
	var failed bool
	for _, rec := range r.records {
		if v, ok := rec.Body.(*journal.GateVerdict); ok && v.Gate == "no-prompt-leak" {
			failed = !v.Pass
		}
	}
	assert.True(t, failed)
}

// PRM-008: a model may return only the keys of its role; other capabilities may
// return what their schema allows.
func TestAllowedKeys(t *testing.T) {
	w := modelsWithRoles(t)
	w.Dispatcher.Prompts.Allowed = map[string][]string{"solver": {"text", "steps"}}
	w.On("t/a", out(`{:text "x" :secret 1}`), out(`{:text "x" :steps []}`)).On("t/c", out(`{:any 1}`))
	r := serve(t, w, order{layer: policy.Layer{RepairMax: policy.Of(1, here)}})
	require.Nil(t, r.Err)
	assert.Equal(t, `{:steps [] :text "x"}`, r.Out.String())
	calls := w.Calls()
	require.Len(t, calls, 2)
	assert.Contains(t, calls[1].Request.Key("context").Key("prompt").Key("messages").String(), "has the key :secret")
	r = serve(t, w, order{layer: policy.Layer{Candidates: policy.Of([]string{"t/c"}, here)}})
	require.Nil(t, r.Err)
}

// RTE-009, EMB-002: the failure of a model intent without candidates names the
// missing configuration; other intents do not.
func TestWithoutAModel(t *testing.T) {
	w := modelsWithRoles(t)
	for intent, says := range map[string]bool{"problem/solve": true, "model/chat": true, "text/render": false, "chess/best-move": false} {
		p, err := policy.Layer{Candidates: policy.Of([]string{"llm/solver"}, here)}.Resolve()
		require.NoError(t, err)
		run := &dispatch.Run{ID: "run_test", Trace: edn.MustRead(`{:id "t"}`), Recorder: dispatchtest.NewRecords(t), Grant: dispatchtest.Open().Grant(policy.Caller{}), Base: t.Context()}
		r := w.Dispatcher.Serve(t.Context(), run, &dispatch.Work{Op: "call", Node: "n", Path: edn.Vector(edn.Int(0)), Intent: intent, Policy: w.Dispatcher.CallPolicy(p, intent, ""), Input: edn.MustRead(`{:prompt "x"}`)})
		require.NotNil(t, r.Err)
		assert.Equal(t, "unsupported/intent", r.Err.Type)
		assert.Equal(t, says, strings.Contains(r.Err.Hint, "a language model serves it"), intent)
		assert.Contains(t, r.Err.Details.Key("rejected").String(), ":llm/solver")
	}
}
