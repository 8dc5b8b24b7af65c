package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// chatting is a configuration with a model that answers with the steps of a script.
func chatting(steps ...string) []string {
	return []string{"ferment.hcl", testProfile + scripted("mine") + onDisk + `
intent "model/chat" {
  in         = "req/chat"
  out        = "res/chat"
  candidates = ["mine/chat", "mine/spare"]
  stream     = "provisional"
  dispatch   = dispatch.spare
}

dispatch "spare" {
  retry {
    same_capability = 0
    fallback        = 1
  }
}

effects {
  scope "db/read" { enabled = true }
  scope "db/write" { enabled = true }
  rule "db/write" { any = ["any"] }
}
`, "mine.edn", `{:capabilities {
 :mine/chat {:kind :llm :intents #{:model/chat} :in-schema :req/chat :out-schema :res/chat :steps [` + strings.Join(steps, " ") + `]}
 :mine/spare {:kind :llm :intents #{:model/chat} :in-schema :req/chat :out-schema :res/chat :steps [{:stream ["the " "spare"] :value {:text "the spare" :finish :stop}}]}}}`}
}

const saysAha = `{:stream ["a" "ha"] :value {:text "aha" :finish :stop}}`

// say calls an intent of conversations and returns the output.
func (w *world) say(t *testing.T, intent, input string, more ...string) edn.Value {
	t.Helper()
	got := w.run(append([]string{"act", "conversation/" + intent, input, "--edn"}, more...)...)
	require.Equal(t, 0, got.code, "%s %s\n%s%s", intent, input, got.stdout, got.stderr)
	v, err := edn.ReadString(got.stdout, edn.WithLimits(edn.Body))
	require.NoError(t, err)
	if out := v.Key("result").Key("out"); !out.IsNil() {
		return out
	}
	return v
}

// texts are the messages of a conversation.
func (w *world) texts(t *testing.T, id string) string {
	var out []string
	for m := range w.say(t, "get", fmt.Sprintf("{:conversation/id %q}", id)).Key("messages").Elems() {
		text, _ := m.Key("content").AsString()
		out = append(out, text)
	}
	return strings.Join(out, "|")
}

// CNV-021, CNV-022, CNV-024, CNV-025, CNV-026: a conversation with a plain model, over
// a restart of the daemon; it streams, and it can be changed.
func TestConversation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, chatting(saysAha)...)
	s := w.serve()
	w.say(t, "open", `{:conversation/id "c-01" :title "Try"}`)
	sent := w.say(t, "send", `{:conversation/id "c-01" :text "Hello"}`)
	assert.Equal(t, `"aha"`, sent.Key("text").String())
	assert.Equal(t, "1", sent.Key("version").String())
	w.say(t, "send", `{:conversation/id "c-01" :text "again" :model {:cap/ref :mine/spare} :base-version 1}`)
	s.stop()
	s = w.serve()
	assert.Equal(t, "Hello|aha|again|the spare", w.texts(t, "c-01"))
	first, _ := sent.Key("turns").Nth(1)
	turn := first.Key("turn/id").String()
	w.say(t, "fork", fmt.Sprintf(`{:conversation/id "c-01" :new/id "c-02" :turn/id %s}`, turn))
	w.say(t, "regenerate", fmt.Sprintf(`{:conversation/id "c-01" :turn/id %s :model {:cap/ref :mine/spare}}`, turn))
	assert.Equal(t, "Hello|the spare", w.texts(t, "c-01"))
	assert.Equal(t, "Hello|aha", w.texts(t, "c-02"))
	w.say(t, "restore", `{:conversation/id "c-01" :version 2}`)
	assert.Equal(t, "Hello|aha|again|the spare", w.texts(t, "c-01"))
	got := w.run("act", "conversation/send", `{:conversation/id "c-01" :text "x" :base-version 1}`, "--edn")
	assert.Contains(t, got.stderr+got.stdout, "conversation/conflict")
	got = w.run("act", "conversation/send", `{:conversation/id "c-01" :txet "x"}`)
	assert.NotEqual(t, 0, got.code)
	s.stop()
}

// PRM-004: an intent with prompts of its own answers the messages of a conversation. One that takes
// no text, or does not answer with one, is refused with the key that names it.
func TestConversationWithAnotherIntent(t *testing.T) {
	t.Parallel()
	files := chatting(saysAha)
	files[1] += `
intent "text/respond" {
  in         = "req/text"
  out        = "res/text"
  candidates = ["mine/voice"]
}

intent "problem/solve" {
  in         = "req/problem"
  out        = "res/problem"
  candidates = ["mine/solver"]
}

intent "route/decide" {
  in         = "req/route"
  out        = "res/route"
  candidates = ["mine/router"]
}
`
	files[3] = strings.Replace(files[3], "{:capabilities {", `{:capabilities {
 :mine/voice {:kind :llm :intents #{:text/respond} :in-schema :req/text :out-schema :res/text
  :steps [{:template {:content "{{input.messages.0.content}}, {{input.prompt}}"}}]}
 :mine/solver {:kind :llm :intents #{:problem/solve} :in-schema :req/problem :out-schema :res/problem
  :steps [{:template {:answer "solved {{input.prompt}}"}}]}
 :mine/router {:kind :llm :intents #{:route/decide} :in-schema :req/route :out-schema :res/route
  :steps [{:template {:cap/id :mine/voice}}]}`, 1)
	w := newWorld(t, files...)
	w.serve()
	w.say(t, "open", `{:conversation/id "c-01"}`)
	w.say(t, "send", `{:conversation/id "c-01" :text "one" :model :text/respond}`)
	w.say(t, "send", `{:conversation/id "c-01" :text "two" :model :text/respond}`)
	w.say(t, "send", `{:conversation/id "c-01" :text "three" :model :problem/solve}`)
	assert.Equal(t, "one|one, one|two|one, two|three|solved three", w.texts(t, "c-01"))
	got := w.run("act", "conversation/send", `{:conversation/id "c-01" :text "x" :model :route/decide}`, "--edn")
	assert.Contains(t, got.stdout+got.stderr, ":path [:model]")
	assert.Contains(t, got.stdout+got.stderr, "invalid-request")

	// CNV-029: neither a handle nor an intent is not replaced by the default.
	before := w.say(t, "get", `{:conversation/id "c-01"}`)
	for _, key := range []string{":model", ":agent"} {
		for _, value := range []string{"{:cap/ref :mine/spare :x 1}", "{:cap/id :mine/spare}", "{}", "5"} {
			got := w.run("act", "conversation/send", `{:conversation/id "c-01" :text "x" `+key+" "+value+"}", "--edn")
			assert.Equal(t, 2, got.code, "%s %s\n%s%s", key, value, got.stdout, got.stderr)
			assert.Contains(t, got.stdout+got.stderr, "["+key, value)
		}
	}
	assert.True(t, before.Equal(w.say(t, "get", `{:conversation/id "c-01"}`)))
}

// CNV-027: the text of an answer is streamed as it comes; what a failed attempt has
// shown is retracted, and never stored.
func TestConversationStreams(t *testing.T) {
	t.Parallel()
	w := newWorld(t, chatting(lines(":crash :sigkill", "half ", "an "))...)
	w.serve()
	w.say(t, "open", `{:conversation/id "c-01"}`)
	got := w.run("act", "conversation/send", `{:conversation/id "c-01" :text "Hello"}`, "--stream", "--edn")
	require.Equal(t, 0, got.code, got.stderr)
	shown, kinds := "", []string{}
	for _, e := range got.events(t) {
		kind, _ := e.Key("event").AsKeyword()
		kinds = append(kinds, kind)
		switch {
		case kind == "provisional":
			text, _ := e.Key("text").AsString()
			shown += text
		case kind == "retract":
			assert.Equal(t, "half an", shown)
			shown = ""
		}
	}
	assert.Equal(t, "the spare", shown, "%s\n%s", kinds, got.stdout)
	assert.Equal(t, "Hello|the spare", w.texts(t, "c-01"))
}

// CNV-027: of an answer of several messages the stream shows the :text, and retracts nothing.
func TestAgentStreams(t *testing.T) {
	t.Parallel()
	files := chatting(saysAha)
	files[1] += `
intent "agent/run" {
  in         = "req/agent.run"
  out        = "res/agent.run"
  candidates = ["mine/agent"]
  stream     = "provisional"
}
`
	files[3] = strings.Replace(files[3], "{:capabilities {", `{:capabilities {
 :mine/agent {:kind :agent :intents #{:agent/run} :in-schema :req/agent.run :out-schema :res/agent.run
  :steps [{:stream ["one" "\n\ntwo"] :value {:agent/stop :done :text "one\n\ntwo"
           :messages [{:role :assistant :content "one"} {:role :assistant :content "two"}]}}]}`, 1)
	w := newWorld(t, files...)
	w.serve()
	w.say(t, "open", `{:conversation/id "c-01"}`)
	for _, intent := range []string{"send", "regenerate"} {
		input := `{:conversation/id "c-01" :agent {:cap/ref :mine/agent}`
		if intent == "send" {
			input += ` :text "Hello"`
		}
		got := w.run("act", "conversation/"+intent, input+"}", "--stream", "--edn")
		require.Equal(t, 0, got.code, got.stderr)
		shown := ""
		for _, e := range got.events(t) {
			switch kind, _ := e.Key("event").AsKeyword(); kind {
			case "provisional", "chunk":
				text, _ := e.Key("text").AsString()
				shown += text
			case "retract":
				assert.Fail(t, "a text is retracted", "%s: %s", intent, e)
			}
		}
		assert.Equal(t, "one\n\ntwo", shown, intent)
	}
	assert.Equal(t, "Hello|one|two", w.texts(t, "c-01"))
}
