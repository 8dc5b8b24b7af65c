package sdk_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/conversation/agent"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
	"github.com/fermenthq/ferment/sdk/wire"
)

// helper is an agent with the tools of its request.
func helper() sdk.Plugin {
	return plugin(sdk.AgentFunc("t/helper", func(ctx context.Context, run *sdk.AgentRun) (conversation.Agent, error) {
		tools, err := run.Functions(ctx)
		if err != nil {
			return nil, err
		}
		return agent.Tool(tools, run.Iterations(20))
	}))
}

// script answers the requests of an agent to its host: each intent with its texts in
// their order, the last one repeated.
type script struct {
	mu   sync.Mutex
	left map[string][]string
}

func scripted(host *sdktest.Host, answers map[string][]string) {
	s := &script{left: answers}
	for intent := range answers {
		host.Answer(intent, func(context.Context, wire.Call, *wire.Emitter) (edn.Value, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			out := s.left[intent][0]
			if len(s.left[intent]) > 1 {
				s.left[intent] = s.left[intent][1:]
			}
			v := edn.MustRead(out)
			if typ, failed := v.Key("fails").AsKeyword(); failed {
				return edn.Nil(), contract.Errorf(typ, "as the script says")
			}
			return answered(out), nil
		})
	}
}

// run is a call of an agent and what came of it.
type run struct {
	deltas []string
	out    edn.Value
	full   edn.Value
	asked  []wire.Call
}

func runAgent(t *testing.T, p sdk.Plugin, answers map[string][]string, input string, call wire.CallContext) (run, error) {
	t.Helper()
	host := &sdktest.Host{}
	scripted(host, answers)
	var r run
	if call.Run == "" {
		call.Run = "r-1"
	}
	response, err := sdktest.Serve(t, p, sdktest.WithHost(host)).Do(t.Context(), sdktest.Call{
		Capability: p.Capabilities[0].ID(), Input: edn.MustRead(input), Context: call,
		OnEvent: func(e wire.Event) { r.deltas = append(r.deltas, e.Value.Dissoc(edn.K("seq")).String()) },
	})
	r.full, r.out, r.asked = response, response.Key("result").Key("out"), host.Calls()
	return r, err
}

const hello = `{:messages [{:role :user :content "hello"}]}`

// solver is a description of sat/solver as a host gives it.
const solver = `{:callables [{:index 0 :intent :sat/solve :cap/kind :solver :description "Finds a model." :effects #{:none}
	:in-schema [:map [:clauses [:vector [:vector :int]]]] :out-schema [:map [:status :keyword]]}]}`

const (
	callsSolver = `{:text "I ask." :finish :tool-calls :tool/calls [{:id "1" :tool/id :sat/solve :args {:clauses [[1]]}}]}`
	saysDone    = `{:text "It can be solved." :finish :stop}`
)

// CNV-013: an agent gets messages, a model and tools, calls the capability behind a
// handle with the arguments of its model, and answers with its messages, their
// attribution, its text and why it stopped.
func TestAgentRuns(t *testing.T) {
	r, err := runAgent(t, helper(), map[string][]string{
		"capability/describe": {solver},
		"model/chat":          {callsSolver, saysDone},
		"sat/solve":           {`{:status :sat :model [1]}`},
	}, `{:messages [{:role :user :content "hello"}] :model {:cap/ref :llm/voice} :tools [{:cap/ref :sat/solver}]}`, wire.CallContext{})
	require.NoError(t, err)
	by := `{:agent/id "t/helper" :cap/id :llm/voice :finish %s :model "served-model" :run "r-1"}`
	assert.Equal(t, `{:agent/stop :done :messages [`+
		`{:attribution `+fmt.Sprintf(by, ":tool-calls")+` :content "I ask." :role :assistant :tool/calls [{:args {:clauses [[1]]} :id "1" :tool/id :sat/solve}]} `+
		`{:attribution {:agent/id "t/helper" :run "r-1"} :content "{\"model\":[1],\"status\":\"sat\"}" :role :tool :tool/id "1"} `+
		`{:attribution `+fmt.Sprintf(by, ":stop")+` :content "It can be solved." :role :assistant}] `+
		`:text "I ask.\n\nIt can be solved."}`, r.out.String())
	assert.Equal(t, `{:agent/id "t/helper" :finish :stop}`, r.full.Key("invoke/meta").String())

	require.Len(t, r.asked, 4)
	assert.Equal(t, `{:refs [{:cap/ref :sat/solver}]}`, r.asked[0].Request.Key("input").String())
	assert.Equal(t, `[{:description "Finds a model. Result: [:map [:status :keyword]]" :in-schema [:map [:clauses [:vector [:vector :int]]]] :tool/id :sat/solve}]`,
		r.asked[1].Request.Key("input").Key("tools").String())
	assert.Equal(t, `{:cap/id :llm/voice :intent :model/chat}`, r.asked[1].Request.Key("task").String())
	assert.Equal(t, `{:cap/id :sat/solver :intent :sat/solve}`, r.asked[2].Request.Key("task").String())
	assert.Equal(t, `{:clauses [[1]]}`, r.asked[2].Request.Key("input").String())
	assert.Equal(t, 3, r.asked[3].Request.Key("input").Key("messages").Len(), "the model sees the result")
}

// CNV-013: the metadata of an agent, its answer to a request that names no model, and
// reasons to stop that are not an error.
func TestAgentDefaults(t *testing.T) {
	p := sdktest.Serve(t, helper())
	c := p.Description().Capabilities[0]
	assert.Equal(t, []string{"agent", "agent/run", "req/agent.run", "res/agent.run"},
		[]string{c.Kind, c.Intents[0], c.InSchema.For("agent/run"), c.OutSchema.For("agent/run")})
	assert.True(t, c.Streams)
	for finish, want := range map[string]string{"stop": ":done", "length": ":length", "refused": ":refused"} {
		r, err := runAgent(t, helper(), map[string][]string{"model/chat": {`{:text "Hi." :finish :` + finish + `}`}}, hello, wire.CallContext{})
		require.NoError(t, err)
		assert.Equal(t, want, r.out.Key("agent/stop").String())
		assert.Equal(t, `{:intent :model/chat}`, r.asked[0].Request.Key("task").String(), "the host chooses the model")
	}
}

// CNV-007, CNV-013: the agent streams text, each message and the results of tools, and
// withdraws what its model withdrew; the texts since then are the text of the answer.
func TestAgentStreams(t *testing.T) {
	host := &sdktest.Host{}
	scripted(host, map[string][]string{"capability/describe": {solver}, "sat/solve": {`{:text "sat"}`}})
	answers := []wire.Answerer{
		pieces(callsSolver, `{:kind :text :seq 1 :text "I "}`, `{:kind :text :seq 2 :text "ask."}`),
		pieces(saysDone, `{:kind :text :seq 1 :text "It "}`, `{:kind :retract :seq 2 :reason :eval/must-failed}`,
			`{:kind :reasoning :seq 3 :text "hm"}`, `{:kind :text :seq 4 :text "It can"}`),
	}
	host.Answer("model/chat", func(ctx context.Context, c wire.Call, e *wire.Emitter) (edn.Value, error) {
		next := answers[0]
		answers = answers[1:]
		return next(ctx, c, e)
	})
	var deltas []string
	response, err := sdktest.Serve(t, helper(), sdktest.WithHost(host)).Do(t.Context(), sdktest.Call{
		Capability: "t/helper", Input: edn.MustRead(`{:messages [{:role :user :content "hello"}] :tools [{:cap/ref :sat/solver}]}`),
		OnEvent: func(e wire.Event) {
			kind, _ := e.Value.Key("kind").AsKeyword()
			role := e.Value.Key("message").Key("role")
			said, _ := e.Value.Key("text").AsString()
			deltas = append(deltas, strings.TrimSpace(kind+" "+said+role.String()))
		},
	})
	require.NoError(t, err)
	for i := range deltas {
		deltas[i] = strings.TrimSuffix(deltas[i], "nil")
	}
	assert.Equal(t, []string{
		"text I ", "text ask.", "message :assistant", "message :tool",
		"text \n\nIt ", "retract ", "text I ask.", "reasoning hm", "text \n\nIt can", "text  be solved.", "message :assistant",
	}, deltas)
	assert.Equal(t, "I ask.\n\nIt can be solved.", text(response.Key("result").Key("out")))
}

// STREAM-003, CNV-007: whatever models stream and withdraw, the texts of the agent since
// its last retraction are the text of its answer.
func TestAgentStreamFoldsToItsText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stages := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) streamed {
			return streamed{
				pieces: rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b\n", " ", "ż", "\x00"}), 0, 5).Draw(t, "pieces"),
				whole:  rapid.SampledFrom([]string{"", "a", "ab\n", "other"}).Draw(t, "whole"),
			}
		}), 1, 4).Draw(t, "stages")
		shown, whole, err := foldAgent(stages)
		require.NoError(t, err)
		require.Equal(t, whole, shown)
	})
}

// CNV-012: the bounds of an agent are typed errors of class repair.
func TestAgentBounds(t *testing.T) {
	calls := make([]string, 60)
	for i := range calls {
		calls[i] = fmt.Sprintf(`{:text "" :finish :tool-calls :tool/calls [{:id "%d" :tool/id :sat/solve :args {:n %d}}]}`, i, i)
	}
	sixteen := func(from int) string { // calls in one message
		var all []string
		for i := range 16 {
			all = append(all, fmt.Sprintf(`{:id "%d" :tool/id :sat/solve :args {:n %d}}`, from+i, from+i))
		}
		return `{:text "" :finish :tool-calls :tool/calls [` + strings.Join(all, " ") + `]}`
	}
	tools := `{:messages [{:role :user :content "hello"}] :tools [:sat/solve]}`
	for name, tt := range map[string]struct {
		model []string
		want  string
		asked int
	}{
		"iterations":        {calls, "agent/iteration-limit", 41},
		"the same again":    {[]string{callsSolver}, "agent/tool-loop", 1 + 3 + 2},
		"calls of the host": {[]string{sixteen(0), sixteen(16), sixteen(32), sixteen(48)}, "agent/iteration-limit", 64},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := runAgent(t, helper(), map[string][]string{
				"capability/describe": {solver}, "model/chat": tt.model, "sat/solve": {`{:status :sat}`},
			}, tools, wire.CallContext{})
			require.ErrorIs(t, err, contract.OfType(tt.want))
			e := contract.AsError(err)
			assert.Equal(t, contract.ClassRepair, e.Class)
			assert.NotEmpty(t, e.Hint)
			assert.Contains(t, e.Message, ":t/helper", "the message names the agent")
			assert.Len(t, r.asked, tt.asked)
		})
	}
}

// CNV-013: inputs that an agent cannot run with are typed errors with their place.
func TestAgentInputs(t *testing.T) {
	for input, want := range map[string]struct{ typ, path string }{
		`{}`:              {"input/invalid", "[:messages]"},
		`{:messages "x"}`: {"input/invalid", "[:messages]"},
		`{:messages [{:role :user :content "a"} {:role :user :content [{:type :blob}]}]}`: {"conversation/invalid-message", "[:messages 1 :content 0 :type]"},
		`{:messages [{:role :user :content "a"}] :model 7}`:                               {"input/invalid", "[:model]"},
		`{:messages [{:role :user :content "a"}] :tools [:a/b :c]}`:                       {"input/invalid", "[:tools 1]"},
		`{:conversation/id "c-1"}`:                                                        {"agent/context-incomplete", ""},
	} {
		_, err := runAgent(t, helper(), nil, input, wire.CallContext{})
		require.ErrorIs(t, err, contract.OfType(want.typ), input)
		if want.path != "" {
			assert.Equal(t, want.path, contract.AsError(err).Details.Key("path").String(), input)
		}
	}
}

// CNV-014: what the model must not pass over ends the run; other failures of a tool
// are results that it sees.
func TestAgentToolErrors(t *testing.T) {
	tools := `{:messages [{:role :user :content "hello"}] :tools [{:cap/ref :sat/solver}]}`
	for failure, shown := range map[string]bool{
		"provider/error": true, "budget/exceeded": true, "auth/forbidden": true, "invalid-request": true, "timeout/soft": true,
		"effects/outcome-unknown": false, "run/suspended": false, "journal/full": false,
	} {
		r, err := runAgent(t, helper(), map[string][]string{
			"capability/describe": {solver}, "model/chat": {callsSolver, saysDone}, "sat/solve": {`{:fails :` + failure + `}`},
		}, tools, wire.CallContext{})
		if !shown {
			assert.ErrorIs(t, err, contract.OfType(failure))
			continue
		}
		require.NoError(t, err, failure)
		result, _ := r.out.Key("messages").Nth(1)
		assert.True(t, result.Key("tool/failed?").Truthy(), failure)
		assert.Contains(t, result.Key("content").String(), "Error: :"+failure)
	}
	_, err := runAgent(t, helper(), map[string][]string{
		"capability/describe": {solver},
		"model/chat":          {`{:text "" :finish :tool-calls :tool/calls [{:id "1" :tool/id :sat/solve :args {:x [{:cap/ref :fs/write}]}}]}`},
	}, tools, wire.CallContext{})
	require.ErrorIs(t, err, contract.OfType("auth/forbidden"), "a model grants no handles")
}

// callable returns a description with the tool's capability, intent and kind.
func callable(index int, intent, kind, effect string) string {
	return fmt.Sprintf(`{:index %d :intent :%s :cap/kind :%s :in-schema :map :out-schema :map :effects #{:%s}}`, index, intent, kind, effect)
}

// CNV-013: a tool is called by its intent, and by its capability where two serve one
// intent. An effect that the call may not have is reported before the model is asked.
func TestAgentToolNames(t *testing.T) {
	for name, tt := range map[string]struct {
		tools, described, want, fails string
		effects                       []string
	}{
		"intents":     {tools: `[:a/x {:cap/ref :b/c}]`, described: callable(0, "a/x", "tool", "none") + callable(1, "b/y", "tool", "none") + callable(1, "b/z", "tool", "none"), want: "[:a/x :b/y :b/z]"},
		"one intent":  {tools: `[{:cap/ref :a/x} {:cap/ref :b/x} :c/x]`, described: callable(0, "c/x", "tool", "none") + callable(1, "c/x", "tool", "none") + callable(2, "c/x", "tool", "none"), want: "[:a/x :b/x :c/x]"},
		"an agent":    {tools: `[{:cap/ref :a/x} :agent/run]`, described: callable(0, "agent/run", "agent", "none") + callable(1, "agent/run", "agent", "none"), want: "[:a/x :agent/run]"},
		"twice":       {tools: `[:a/x :a/x]`, described: callable(0, "a/x", "tool", "none") + callable(1, "a/x", "tool", "none"), fails: "input/invalid"},
		"effect":      {tools: `[:a/x]`, described: callable(0, "a/x", "tool", "db/read"), fails: "effects/missing-required"},
		"its effect":  {tools: `[:a/x]`, described: callable(0, "a/x", "tool", "db/read"), effects: []string{"db/read"}, want: "[:a/x]"},
		"not its own": {tools: `[:a/x]`, described: callable(7, "a/x", "tool", "none"), fails: "runtime/protocol"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := runAgent(t, helper(), map[string][]string{
				"capability/describe": {`{:callables [` + tt.described + `]}`}, "model/chat": {saysDone},
			}, `{:messages [{:role :user :content "hello"}] :tools `+tt.tools+`}`, wire.CallContext{Effects: tt.effects})
			if tt.fails != "" {
				require.ErrorIs(t, err, contract.OfType(tt.fails))
				return
			}
			require.NoError(t, err)
			var names []edn.Value
			for tool := range r.asked[1].Request.Key("input").Key("tools").Elems() {
				names = append(names, tool.Key("tool/id"))
			}
			assert.Equal(t, tt.want, edn.Vector(names...).String())
		})
	}
}

const (
	withAgent = `{:messages [{:role :user :content "hello"}] :model {:cap/ref :llm/voice} :tools [{:cap/ref :t/scout}]}`
	delegates = `{:text "" :finish :tool-calls :tool/calls [{:id "1" :tool/id :t/scout :args {:task "Look."}}]}`
)

// CNV-014: an agent as a tool gets its task and the model of the run, nothing about the
// caller, which the host knows. The result is the text that the host answers with.
func TestSubAgents(t *testing.T) {
	scout := callable(0, "agent/run", "agent", "none")
	answers := func(result string) map[string][]string {
		return map[string][]string{
			"capability/describe": {`{:callables [` + scout + `]}`}, "model/chat": {delegates, saysDone}, "agent/run": {result},
		}
	}
	for input, model := range map[string]string{
		withAgent: "{:cap/ref :llm/voice}",
		strings.Replace(withAgent, ":model {:cap/ref :llm/voice}", "", 1): ":model/chat",
	} {
		r, err := runAgent(t, helper(), answers(`{:messages [{:role :assistant :content "x"}] :text "Found it." :agent/stop :done}`),
			input, wire.CallContext{Principal: "ada"})
		require.NoError(t, err)
		sub := r.asked[2].Request
		assert.Equal(t, `{:cap/id :t/scout :intent :agent/run}`, sub.Key("task").String())
		assert.Equal(t, `{:messages [{:content "Look." :role :user}] :model `+model+`}`, sub.Key("input").String())
		result, _ := r.out.Key("messages").Nth(1)
		assert.Equal(t, `"Found it."`, result.Key("content").String())
	}

	r, err := runAgent(t, helper(), answers(`{:messages [] :agent/stop :done}`), withAgent, wire.CallContext{})
	require.NoError(t, err)
	result, _ := r.out.Key("messages").Nth(1)
	assert.Equal(t, `"(no result)"`, result.Key("content").String())

	_, err = runAgent(t, helper(), answers(`{:fails :agent/context-incomplete}`), withAgent, wire.CallContext{})
	require.ErrorIs(t, err, contract.OfType("agent/context-incomplete"), "the model cannot mend that")
}

// CNV-014: a sub-agent asks its model 5 times at most, and the third below the first
// agent has no agents among its tools.
func TestSubAgentBounds(t *testing.T) {
	parent := func(depth int) string {
		return fmt.Sprintf(`{:messages [{:role :user :content "hello"}] :tools [{:cap/ref :t/scout} :sat/solve]
			:agent/parent {:principal "ada" :conversation/id "c-1" :turn/id "t-4" :agent/id "t/top" :depth %d}}`, depth)
	}
	described := `{:callables [` + callable(0, "agent/run", "agent", "none") + callable(1, "sat/solve", "solver", "none") + `]}`
	for depth, want := range map[int]int{1: 2, 2: 2, 3: 1} {
		r, err := runAgent(t, helper(), map[string][]string{
			"capability/describe": {described}, "model/chat": {delegates, saysDone},
			"agent/run": {`{:messages [{:role :assistant :content "x"}] :agent/stop :done}`},
		}, parent(depth), wire.CallContext{Principal: "agent"})
		require.NoError(t, err)
		assert.Equal(t, want, r.asked[1].Request.Key("input").Key("tools").Len(), "tools at depth %d", depth)
		if depth == 3 {
			result, _ := r.out.Key("messages").Nth(1)
			assert.Contains(t, result.Key("content").String(), "there is no tool")
		}
	}

	calls := make([]string, 9)
	for i := range calls {
		calls[i] = fmt.Sprintf(`{:text "" :finish :tool-calls :tool/calls [{:id "%d" :tool/id :sat/solve :args {:n %d}}]}`, i, i)
	}
	r, err := runAgent(t, helper(), map[string][]string{
		"capability/describe": {described}, "model/chat": calls, "sat/solve": {`{:status :sat}`},
	}, parent(1), wire.CallContext{})
	require.ErrorIs(t, err, contract.OfType("agent/iteration-limit"))
	assert.Len(t, r.asked, 1+5+5)

	for _, wrong := range []int{0, 4} {
		_, err := runAgent(t, helper(), nil, parent(wrong), wire.CallContext{Principal: "agent"})
		require.ErrorIs(t, err, contract.OfType("agent/context-incomplete"), wrong)
	}
}

// CNV-013: an agent that returns no message, or a function that returns no agent, is a typed error.
func TestAgentWithoutResult(t *testing.T) {
	for name, a := range map[string]conversation.Agent{
		"no agent": nil, "zero message": returns{{}}, "empty message": returns{conversation.Assistant("")},
	} {
		p := plugin(sdk.AgentFunc("t/none", func(context.Context, *sdk.AgentRun) (conversation.Agent, error) { return a, nil }))
		_, err := runAgent(t, p, nil, `{:messages [{:role :user :content "x"}]}`, wire.CallContext{})
		require.ErrorIs(t, err, contract.OfType("runtime/invalid-result"), name)
	}
}

// returns is an agent that returns given messages.
type returns []conversation.Message

func (r returns) Execute(context.Context, conversation.Context, conversation.Model) ([]conversation.Message, error) {
	return r, nil
}

func (r returns) ExecuteStream(context.Context, conversation.Context, conversation.Model) conversation.Stream {
	return func(yield func(conversation.Delta, error) bool) {
		for _, m := range r {
			if !yield(conversation.Delta{Kind: conversation.DeltaMessage, Message: m}, nil) {
				return
			}
		}
	}
}
