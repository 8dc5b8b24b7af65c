package cli_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// agents is a configuration with real tools, agents and models that are played from
// scripts: :t/voice, and :t/spare behind it.
func agents(blocks string, more ...string) string {
	return shipped("chess", "chess") + shipped("sat", "sat") + scripted("voice") + scripted("spare") +
		shipped("agent", "agent", "config {\n"+blocks+"\n}") + `
check "legal-move" {
  intent = "chess/verify-move"
}
check "careful" {
  condition = try(result.text != "rash", true)
}
dispatch "default" {
  retry {
    fallback = 1
  }
}
intent "chess/best-move" {
  in         = "req/chess.position"
  out        = "res/chess.move+pv+eval"
  candidates = ["chess/engine"]
  done { must = ["schema-valid", "legal-move"] }
}
intent "model/chat" {
  in         = "req/chat"
  out        = "res/chat"
  candidates = ["t/voice", "t/spare"]
  stream     = "provisional"
  done { must = ["schema-valid", "careful"] }
}
intent "agent/run" {
  in         = "req/agent.run"
  out        = "res/agent.run"
  candidates = ["agent/top"]
  stream     = "provisional"
}
` + strings.Join(more, "\n")
}

// agentWorld returns a world with these agents. The models say the texts in their
// order, and then the last one again.
func agentWorld(t *testing.T, config string, voice []string, spare ...string) *world {
	t.Helper()
	if len(spare) == 0 {
		spare = []string{`{:error {:type :test/unwanted}}`}
	}
	chat := func(id string, steps []string) string {
		return script(id, ":model/chat", ":kind :llm :in-schema :req/chat :out-schema :res/chat :cost {:usd 0.01M}", steps...)
	}
	return newWorld(t, "ferment.hcl", config, "voice.edn", chat(":t/voice", voice), "spare.edn", chat(":t/spare", spare))
}

// calling returns the step of a model that calls tools: pairs of name and arguments.
func calling(pairs ...string) string {
	var calls []string
	for i := 0; i < len(pairs); i += 2 {
		calls = append(calls, fmt.Sprintf(`{:id "%s-%d" :tool/id :%s :args %s}`, strings.ReplaceAll(pairs[i], "/", "-"), i, pairs[i], pairs[i+1]))
	}
	return `{:value {:text "" :finish :tool-calls :tool/calls [` + strings.Join(calls, " ") + `]}}`
}

// saying returns the step of a model that says a text.
func saying(text string) string {
	return fmt.Sprintf(`{:value {:text %q :finish :stop}}`, text)
}

const (
	mate      = `{:fen "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1"}`
	question  = `{:messages [{:role :user :content "hello"}]}`
	withTools = "agent \"top\" {\n  intents      = [\"chess/best-move\"]\n  capabilities = [\"sat/solver\"]\n  model_intent = \"model/chat\"\n}"
)

// callsOf lists the calls of a run with their paths.
func callsOf(transcript edn.Value) []string {
	var all []string
	for entry := range transcript.Elems() {
		all = append(all, word(entry.Key("cap/id"))+" "+entry.Key("path").String())
	}
	return all
}

// CNV-013, CNV-014, JRN-046: an agent calls real capabilities for its model. Each of its
// requests is a call below its own, with the gates of its intent, in the account of the
// run, and its model sees what the capabilities returned.
func TestAgentCallsRealTools(t *testing.T) {
	t.Parallel()
	w := agentWorld(t, agents(withTools), []string{
		calling("chess/best-move", mate, "sat/solve", `{:clauses [[1 2] [-1]]}`),
		`{:template {:text "{{input.messages.2.content}} {{input.messages.3.content}}" :finish :stop}}`,
	})
	got := w.run("act", "agent/run", question, "--transcript", "--edn")
	require.Zero(t, got.code, got.stderr)
	response := got.value(t)
	out := response.Key("result").Key("out")
	assert.Equal(t, ":done", out.Key("agent/stop").String())
	said, _ := out.Key("text").AsString()
	assert.Contains(t, said, `"move":"d1d8"`)
	assert.Contains(t, said, `"status":"sat"`)
	assert.Equal(t, 4, out.Key("messages").Len())
	assert.Equal(t, []string{
		`agent/top [0]`, `t/voice [0 "h2" 0]`, `chess/engine [0 "h3" 0]`, `sat/solver [0 "h4" 0]`, `t/voice [0 "h5" 0]`,
	}, callsOf(response.Key("transcript")), "the first request is for descriptions")
	assert.Equal(t, "[[:agent/top nil] [:t/voice nil] [:chess/engine nil] [:sat/solver nil]]",
		response.Key("plan/run").Key("participants").String())
	events := w.run("act", "agent/run", question, "--stream", "--edn").stdout
	assert.Regexp(t, `legal-move.*\[0 "h3" 0\]|\[0 "h3" 0\].*legal-move`, events, "the move is checked before the model sees it")
}

// CNV-014: gates and the choice of candidates hold for the model of an agent: a refused
// answer never reaches it.
func TestAgentsAreGated(t *testing.T) {
	t.Parallel()
	w := agentWorld(t, agents(withTools), []string{saying("rash")}, saying("thoughtful"))
	got := w.run("act", "agent/run", question, "--edn")
	require.Zero(t, got.code, got.stderr)
	assert.Equal(t, `"thoughtful"`, got.value(t).Key("result").Key("out").Key("text").String())
}

// CNV-014: an agent spends the budget of its call, models and tools included.
func TestAgentsSpendTheBudgetOfTheirCall(t *testing.T) {
	t.Parallel()
	steps := []string{calling("chess/best-move", mate), calling("sat/solve", `{:clauses [[1]]}`), saying("done")}
	got := agentWorld(t, agents(withTools), steps).run("act", "agent/run", question, "--budget", "{:max-usd 0.025M}", "--transcript", "--edn")
	assert.NotZero(t, got.code)
	assert.Equal(t, "budget/exceeded", word(got.value(t).Key("error").Key("type")), got.stdout)
	assert.Equal(t, []string{
		`agent/top [0]`, `t/voice [0 "h2" 0]`, `chess/engine [0 "h3" 0]`, `t/voice [0 "h4" 0]`, `sat/solver [0 "h5" 0]`,
	}, callsOf(got.value(t).Key("transcript")), "the third question to the model is not paid for")
	got = agentWorld(t, agents(withTools), steps).run("act", "agent/run", question, "--budget", "{:max-usd 0.03M}", "--edn")
	require.Zero(t, got.code, got.stdout)
	scope, _ := got.value(t).Key("budget").Key("scopes").Nth(0)
	assert.Equal(t, "0.03M", scope.Key("used").Key("usd").String())
}

// CNV-013, CNV-014: the model and the tools of a request are handles that work within
// it; one that the request does not have is :auth/forbidden, also if a model writes it.
func TestAgentsUseHandlesOfTheirRequest(t *testing.T) {
	t.Parallel()
	none := agents("agent \"top\" {}")
	request := `{:messages [{:role :user :content "hello"}] :model {:cap/ref :t/spare} :tools [{:cap/ref :sat/solver}]}`
	w := agentWorld(t, none, unwanted, calling("sat/solve", `{:clauses [[1]]}`), saying("done"))
	got := w.run("act", "agent/run", request, "--edn")
	require.Zero(t, got.code, got.stderr)
	assert.Contains(t, got.value(t).Key("result").Key("out").Key("messages").String(), `\"status\":\"sat\"`)

	forged := agentWorld(t, none, unwanted, calling("sat/solve", `{:clauses [{:cap/ref :chess/engine}]}`))
	got = forged.run("act", "agent/run", request, "--edn")
	assert.Equal(t, 4, got.code, got.stderr)
	assert.Equal(t, "auth/forbidden", word(got.value(t).Key("error").Key("type")))

	absent := agentWorld(t, none, unwanted).run("act", "agent/run",
		`{:messages [{:role :user :content "hello"}] :tools [{:cap/ref :sat/none}]}`, "--edn")
	assert.Equal(t, "cap/not-found", word(absent.value(t).Key("error").Key("type")), absent.stdout)
}

// CNV-011, CNV-012: bounds, with real processes.
func TestAgentsStopAtTheirBounds(t *testing.T) {
	t.Parallel()
	loop := agentWorld(t, agents(withTools), []string{calling("sat/solve", `{:clauses [[1]]}`)}).run("act", "agent/run", question, "--edn")
	assert.Equal(t, "agent/tool-loop", word(loop.value(t).Key("error").Key("type")), loop.stdout)
	many := make([]string, 9)
	for i := range many {
		many[i] = calling("sat/solve", fmt.Sprintf(`{:clauses [[%d]]}`, i+1))
	}
	limit := agentWorld(t, agents(withTools), many).run("act", "agent/run", question, "--edn")
	assert.Equal(t, "agent/iteration-limit", word(limit.value(t).Key("error").Key("type")), limit.stdout)
	// The 64 requests of an agent: the descriptions, three messages of 16 calls and their models, and 12 more.
	var calls []string
	for i := range 16 {
		calls = append(calls, "sat/solve", fmt.Sprintf(`{:clauses [[%d]]}`, i+1))
	}
	each := make([]string, 5)
	for i := range each {
		each[i] = strings.ReplaceAll(calling(calls...), ":clauses [[", fmt.Sprintf(":clauses [[%d00", i+1))
	}
	used := agentWorld(t, agents(withTools), each).run("act", "agent/run", question, "--edn")
	assert.Equal(t, "agent/iteration-limit", word(used.value(t).Key("error").Key("type")), used.stdout)
}

// CNV-014: an effect of a tool needs the effects of the agent and of the request.
func TestAgentsNeedTheEffectsOfTheirTools(t *testing.T) {
	t.Parallel()
	block := func(effects string) string {
		return "agent \"top\" {\n  capabilities = [\"t/writer\"]\n  effects = [" + effects + "]\n}"
	}
	more := scripted("writer") + "effects {\n  scope \"db/write\" {\n    enabled = true\n  }\n}\n"
	world := func(effects string) *world {
		w := agentWorld(t, agents(block(effects), more), []string{calling("t/write", "{}"), saying("written")})
		w.write("writer.edn", script(":t/writer", ":t/write", ":effects #{:db/write} :in-schema :req/any :out-schema :res/any", `{:value {:ok true}}`))
		return w
	}
	got := world("").run("act", "agent/run", question, "--effects", "db/write", "--edn")
	assert.Equal(t, "effects/missing-required", word(got.value(t).Key("error").Key("type")), got.stdout)
	got = world(`"db/write"`).run("act", "agent/run", question, "--edn")
	assert.NotZero(t, got.code, "the request does not allow it")
	got = world(`"db/write"`).run("act", "agent/run", question, "--effects", "db/write", "--edn")
	require.Zero(t, got.code, got.stderr)
	assert.Contains(t, got.value(t).Key("result").Key("out").Key("messages").String(), `{\"ok\":true}`)
}

// CNV-007, CNV-014, STR-002: the text of an agent is shown as it comes, and what a gate
// refused of its model is withdrawn from the reader of the agent.
func TestAgentsStream(t *testing.T) {
	t.Parallel()
	w := agentWorld(t, agents(withTools), []string{
		lines(`:value {:text "I look." :finish :tool-calls :tool/calls [{:id "1" :tool/id :sat/solve :args {:clauses [[1]]}}]}`, "I ", "look."),
		lines(`:value {:text "rash" :finish :stop}`, "ra", "sh"),
	}, lines(`:value {:text "It is sat." :finish :stop}`, "It ", "is sat."))
	got := w.run("act", "agent/run", question, "--stream", "--edn")
	require.Zero(t, got.code, got.stderr)
	var shown strings.Builder
	retracted, messages := 0, 0
	events := got.events(t)
	for _, e := range events {
		switch word(e.Key("event")) {
		case "provisional", "chunk":
			piece, _ := e.Key("text").AsString()
			shown.WriteString(piece)
		case "retract":
			retracted++
			shown.Reset()
		case "delta":
			messages++
		}
	}
	assert.Equal(t, "I look.\n\nIt is sat.", shown.String(), got.stdout)
	assert.Equal(t, 1, retracted)
	assert.Equal(t, 3, messages, "each message of the agent, the result of the tool included")
	last := events[len(events)-1]
	assert.Contains(t, last.String(), `:text "I look.\n\nIt is sat."`)
}

// JRN-046, CNV-014: when the process of an agent dies, its call is made again, and what
// it has asked before has the recorded answer: the model is not asked twice.
func TestAgentsGoOnAfterACrash(t *testing.T) {
	t.Parallel()
	blocks := "agent \"top\" {\n  capabilities = [\"t/slow\"]\n}"
	config := strings.Replace(agents(blocks, scripted("slow")), "fallback = 1", "same_capability = 1\n    fallback        = 1", 1)
	w := agentWorld(t, config+"http {\n  listen = [\"127.0.0.1:0\"]\n}\n", []string{
		calling("t/wait", `{}`), `{:template {:text "{{input.messages.2.content}}" :finish :stop}}`,
	})
	w.write("slow.edn", script(":t/slow", ":t/wait", ":in-schema :req/any :out-schema :res/any", `{:delay-ms 1500 :value {:n 2}}`))
	s := w.serve()
	got := make(chan answer, 1)
	go func() { got <- s.ask("agent/run", question) }()
	require.Eventually(t, func() bool { return s.inFlight("slow") == 1 }, 20*time.Second, 20*time.Millisecond)
	require.NoError(t, syscall.Kill(s.pids()["agent"], syscall.SIGKILL))
	response := (<-got).value(t)
	assert.Equal(t, `"{\"n\":2}"`, response.Key("result").Key("out").Key("text").String(), "%s", response)
	calls := response.Key("usage").Key("by-capability")
	assert.Equal(t, "2 2 2", strings.Join([]string{
		calls.Key("agent/top").Key("calls").String(), calls.Key("t/voice").Key("calls").String(), calls.Key("t/slow").Key("calls").String(),
	}, " "), "%s", calls)
	s.stop()
}
