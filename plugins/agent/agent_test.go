package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
	"github.com/fermenthq/ferment/sdk/wire"
)

func TestMain(m *testing.M) { sdktest.Main(m, newPlugin()) }

// serve starts the plugin with a configuration, and a model that says one thing.
func serve(t *testing.T, config, said string) *sdktest.Plugin {
	t.Helper()
	host := &sdktest.Host{}
	host.AnswerValue("model/chat", edn.MustRead(said))
	host.AnswerValue("t/solve", edn.MustRead(`{:ok true}`))
	host.AnswerValue("t/other", edn.MustRead(`{:ok true}`))
	return sdktest.Serve(t, newPlugin(), sdktest.WithHost(host), sdktest.WithConfig(edn.MustRead(config)))
}

const (
	hello = `{:messages [{:role :user :content "hello"}]}`
	done  = `{:text "Done." :finish :stop}`
)

// asked returns the requests of a run to its host: tasks, and tools offered to models.
func asked(calls []wire.Call) (tasks []string, tools [][]string) {
	for _, c := range calls {
		task := c.Request.Key("task")
		name := strings.TrimPrefix(task.Key("intent").String(), ":")
		if id := task.Key("cap/id"); !id.IsNil() {
			name += " of " + strings.TrimPrefix(id.String(), ":")
		}
		tasks = append(tasks, name)
		if offered := c.Request.Key("input").Key("tools"); strings.HasPrefix(name, "model/chat") {
			var names []string
			for tool := range offered.Elems() {
				names = append(names, tool.Key("tool/id").String())
			}
			tools = append(tools, names)
		}
	}
	return tasks, tools
}

// CNV-013: a block is one capability with its description, effects, instructions, model
// and tools; without a block there is one agent without tools.
func TestConfiguredAgents(t *testing.T) {
	p := serve(t, `{}`, done)
	require.Len(t, p.Description().Capabilities, 1)
	assert.Equal(t, "agent/assistant", p.Description().Capabilities[0].ID)
	out := p.MustInvoke("agent/assistant", edn.MustRead(hello))
	assert.Equal(t, `"Done."`, out.Key("text").String())
	tasks, tools := asked(p.Host().Calls())
	assert.Equal(t, []string{"model/chat"}, tasks)
	assert.Equal(t, [][]string{nil}, tools)

	p = serve(t, `{:agent {"solver" {:description "Solves." :instructions "Be exact." :model "llm/voice"
		:capabilities ["t/solve"] :intents ["t/other"] :iterations 2 :effects ["db/read"]} "plain" {:model-intent "model/chat"}}}`, done)
	require.Len(t, p.Description().Capabilities, 2)
	c := p.Description().Capabilities[1]
	assert.Equal(t, []string{"agent/solver", "agent", "Solves."}, []string{c.ID, c.Kind, c.Description})
	assert.Equal(t, []string{"db/read"}, c.Effects)
	p.MustInvoke("agent/solver", edn.MustRead(hello))
	tasks, tools = asked(p.Host().Calls())
	assert.Equal(t, []string{"capability/describe", "model/chat of llm/voice"}, tasks)
	assert.Equal(t, [][]string{{":t/solve", ":t/other"}}, tools)
	first, _ := p.Host().Calls()[1].Request.Key("input").Key("messages").Nth(0)
	assert.Equal(t, `{:content "Be exact." :role :system}`, first.String())
}

// CNV-013: a request can name another model, and other tools instead of the configured
// ones.
func TestRequestsReplaceModelAndTools(t *testing.T) {
	p := serve(t, `{:agent {"solver" {:model "llm/voice" :capabilities ["t/solve"]}}}`, done)
	p.MustInvoke("agent/solver", edn.MustRead(`{:messages [{:role :user :content "hello"}] :model {:cap/ref :llm/other} :tools [:t/other]}`))
	p.MustInvoke("agent/solver", edn.MustRead(`{:messages [{:role :user :content "hello"}] :tools []}`))
	tasks, tools := asked(p.Host().Calls())
	assert.Equal(t, []string{"capability/describe", "model/chat of llm/other", "model/chat of llm/voice"}, tasks)
	assert.Equal(t, [][]string{{":t/other"}, nil}, tools)
}

// CNV-011, CNV-012: the configured number of iterations is a bound.
func TestConfiguredIterations(t *testing.T) {
	p := serve(t, `{:agent {"solver" {:iterations 2 :intents ["t/solve"]}}}`,
		`{:text "" :finish :tool-calls :tool/calls [{:id "1" :tool/id :t/solve :args {}}]}`)
	_, err := p.Invoke("agent/solver", edn.MustRead(hello))
	require.ErrorIs(t, err, contract.OfType("agent/iteration-limit"))
	tasks, _ := asked(p.Host().Calls())
	assert.Equal(t, "capability/describe model/chat t/solve model/chat t/solve", strings.Join(tasks, " "))
}

// LM-004: all problems of a configuration are reported at once, at their settings.
func TestWrongSettings(t *testing.T) {
	p := sdktest.Serve(t, newPlugin(), sdktest.Unconfigured())
	for config, want := range map[string][]string{
		`{:agent {"no label" {}}}`: {`[:agent "no label"]`},
		`{:agent {"a" {:model "llm/voice" :model-intent "model/chat"} "b" {:model "two words" :capabilities ["t/x" ""] :intents ["plain"] :effects ["not one"]}}}`: {
			`[:agent "a" :model-intent]`, `[:agent "b" :model]`, `[:agent "b" :capabilities 1]`, `[:agent "b" :intents 0]`, `[:agent "b" :effects 0]`,
		},
		`{:agent {"a" {:iterations 51}}}`: {`[:agent "a" :iterations]`},
		`{:agent {"a" {:tools ["t/x"]}}}`: {`[:agent "a" :tools]`},
	} {
		said, err := p.Client().Describe(t.Context(), edn.MustRead(config), wire.HostInfo{})
		require.NoError(t, err)
		var at []string
		for _, f := range said.Findings {
			at = append(at, edn.Vector(f.Path...).String())
		}
		assert.ElementsMatch(t, want, at, config)
	}
}

// A real process answers; the README has the form of its answers.
func TestProcess(t *testing.T) {
	host := &sdktest.Host{}
	host.AnswerValue("model/chat", edn.MustRead(done))
	p := sdktest.Start(t, sdktest.WithHost(host), sdktest.WithConfig(edn.MustRead(`{}`)))
	out := p.MustInvoke("agent/assistant", edn.MustRead(hello))
	raw, err := os.ReadFile("README.md")
	require.NoError(t, err)
	examples := regexp.MustCompile("(?s)```edn\n(.*?)```").FindAllSubmatch(raw, -1)
	require.Len(t, examples, 2)
	shown := edn.MustRead(string(examples[1][1]))
	for key := range out.Entries() {
		assert.True(t, shown.HasKey(strings.TrimPrefix(key.String(), ":")), "%s", key)
	}
	for _, key := range []string{"messages", "model", "tools"} {
		assert.True(t, edn.MustRead(string(examples[0][1])).HasKey(key))
	}
}
