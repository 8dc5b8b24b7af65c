//go:build slow

package cli_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// delegatingWorld returns a world whose agent :agent/top has the agent :agent/scout as a
// tool, which has one that hangs.
func delegatingWorld(t *testing.T) *world {
	config := agents(`agent "top" {
  capabilities = ["agent/scout"]
}
agent "scout" {
  description  = "Looks things up."
  capabilities = ["t/slow"]
}`, scripted("slow"), onDisk, `
http {
  listen = ["127.0.0.1:0"]
}
effects {
  scope "db/read" { enabled = true }
  scope "db/write" { enabled = true }
  rule "db/write" { any = ["any"] }
}
`)
	w := agentWorld(t, config, []string{calling("agent/scout", `{:task "Find the number."}`), calling("t/wait", `{}`)})
	w.write("slow.edn", script(":t/slow", ":t/wait", ":in-schema :req/any :out-schema :res/any", hang))
	return w
}

// spawned are the conversations that come from others.
func (w *world) spawned(t *testing.T) (all []edn.Value) {
	for c := range w.say(t, "list", `{:archived? true :any? true}`).Key("conversations").Elems() {
		if !c.Key("from").IsNil() {
			all = append(all, w.say(t, "get", edn.MustMap(edn.K("conversation/id"), c.Key("conversation/id")).String()))
		}
	}
	return all
}

// CNV-014, CNV-025: an agent calls another one in a conversation that the host spawns
// from that of the first, whose result the first one's model sees. The host states where
// the agents run, and for whom; a place that a caller or an agent invents is refused.
// When the daemon is killed while the second agent works, the run goes on in the same
// conversation.
func TestAgentsCallAgents(t *testing.T) {
	t.Parallel()
	w := delegatingWorld(t)
	s := w.serve()
	act := func(intent, input, more string) answer {
		return s.request(t.Context(), "POST", "/v1/act", envelopeOf(intent, input, more))
	}
	require.Equal(t, 200, act("conversation/open", `{:conversation/id "c-1"}`, "").status)
	require.Equal(t, 200, act("conversation/append", `{:conversation/id "c-1" :messages [{:role :user :content "hello"}]}`, "").status)
	for input, want := range map[string]string{
		`{:messages [{:role :user :content "a"}] :conversation/id "c-9" :turn/id "t-1"}`: "conversation/not-found",
		`{:messages [{:role :user :content "a"}] :conversation/id "c-1" :turn/id "t-9"}`: "conversation/turn-not-in-path",
	} {
		got := act("agent/run", input, "")
		assert.Equal(t, want, word(got.value(t).Key("error").Key("type")), "%s\n%s", input, got.body)
	}
	// The model asks for the second agent, in a run that states its place itself.
	got := act("agent/run", `{:messages [{:role :user :content "a"}]
		:agent/parent {:principal "local" :conversation/id "c-1" :turn/id "t-1" :depth 1}}`, "")
	assert.Equal(t, "agent/context-incomplete", word(got.value(t).Key("error").Key("type")), "%s", got.body)
	assert.Empty(t, w.spawned(t))
	s.stop()

	s = w.serve() // the model begins with its first text again
	sent := act("conversation/send", `{:conversation/id "c-1" :text "What is it?" :agent {:cap/ref :agent/top}}`, ":response/type :accepted")
	require.Equal(t, 202, sent.status, "%s", sent.body)
	job, _ := sent.value(t).Key("job/id").AsString()
	require.Eventually(t, func() bool { return s.inFlight("slow") == 1 }, runLimit, 20*time.Millisecond)
	s.signal(syscall.SIGKILL)
	s.wait()
	w.write("slow.edn", script(":t/slow", ":t/wait", ":in-schema :req/any :out-schema :res/any", `{:value {:n 2}}`))
	w.write("voice.edn", script(":t/voice", ":model/chat", ":kind :llm :in-schema :req/chat :out-schema :res/chat :cost {:usd 0.01M}",
		saying("It is 2."), `{:template {:text "The scout said: {{input.messages.3.content}}" :finish :stop}}`)) // what it has not said yet
	s = w.serve()
	var done edn.Value
	require.Eventually(t, func() bool { // below the limit of requests
		got := s.request(t.Context(), "GET", "/v1/act/jobs/"+job, "")
		done, _ = edn.Read(got.body)
		return word(done.Key("job/status")) == "completed"
	}, runLimit, 100*time.Millisecond, "%s", &done)
	assert.Equal(t, "2", done.Key("attempt").String())
	assert.Equal(t, `"The scout said: It is 2."`, done.Key("result").Key("out").Key("text").String(), "%s", done)
	assert.True(t, strings.HasPrefix(w.texts(t, "c-1"), "hello|What is it?||It is 2.|The scout said"), w.texts(t, "c-1"))
	children := w.spawned(t)
	require.Len(t, children, 1)
	child := children[0]
	assert.Equal(t, `{:conversation/id "c-1" :relation :spawned-from :turn/id "t-1"}`, child.Key("from").String())
	assert.Equal(t, w.say(t, "get", `{:conversation/id "c-1"}`).Key("owner").String(), child.Key("owner").String())
	var said []string
	for m := range child.Key("messages").Elems() {
		said = append(said, word(m.Key("role"))+": "+m.Key("content").String())
	}
	assert.Equal(t, []string{`user: "Find the number."`, `assistant: nil`, `tool: "{\"n\":2}"`, `assistant: "It is 2."`}, said)
	s.stop()
}
