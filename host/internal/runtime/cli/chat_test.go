package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// chatWorld is a configuration with a model that fails now and then, a spare one and an
// agent.
func chatWorld(more ...string) []string {
	return []string{"ferment.hcl", testProfile + scripted("mine") + `
intent "model/chat" {
  in         = "req/chat"
  out        = "res/chat"
  candidates = ["llm/voice", "mine/spare"]
  stream     = "provisional"
  dispatch   = dispatch.spare

  done { must = ["schema-valid", "no-shouting"] }
}

check "no-shouting" {
  condition = result.text != "LOUD"
  message   = "shouts"
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
` + strings.Join(more, "\n"), "mine.edn", `{:capabilities {
 :llm/voice {:kind :llm :intents #{:model/chat} :in-schema :req/chat :out-schema :res/chat :then :cycle
  :steps [{:stream ["**a**" "ha"] :value {:text "**a**ha" :finish :stop} :usage {:tokens-in 3 :tokens-out 4 :cost-usd 0.0015M}}
          {:stream ["LOUD"] :value {:text "LOUD" :finish :stop} :usage {:tokens-in 5 :tokens-out 6 :cost-usd 0.001M}}
          {:stream ["so " "far"] :hang true}]}
 :mine/spare {:kind :llm :intents #{:model/chat} :in-schema :req/chat :out-schema :res/chat
  :steps [{:template {:text "you said: {{input.messages.0.content}}" :finish :stop}}]}
 :mine/silent {:kind :llm :intents #{:model/chat} :in-schema :req/chat :out-schema :res/chat :steps [{:hang true}]}
 :agent/assistant {:kind :agent :intents #{:agent/run} :in-schema :req/agent.run :out-schema :res/agent.run
  :steps [{:template {:messages [{:role :assistant :content "the agent heard {{input.messages.0.content}}"}] :agent/stop :done}}]}}}`, "questions.txt", "Hello\n"}
}

// chat gives lines to a chat without a terminal.
func (w *world) chat(input string, args ...string) ended {
	return w.feed(input, append([]string{"chat"}, args...)...)
}

// Without a terminal each line is a message or a command, and standard output has the
// answers alone. A conversation is continued by its name, over a restart.
func TestChatLines(t *testing.T) {
	t.Parallel()
	w := newWorld(t, chatWorld(onDisk)...)
	s := w.serve()
	got := w.chat("Hello\n", "c-01")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Equal(t, "**a**ha\n", got.stdout)

	// The second answer fails its gate: the spare model answers.
	got = w.chat("two\\\nlines\n/gates\n/cost\n/branch\n", "c-01")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Equal(t, `you said: Hello
llm/voice schema-valid   passed
llm/voice no-shouting    FAILED
mine/spare schema-valid  passed
mine/spare no-shouting   passed
last answer  5 tokens in, 6 out, 0.001 USD
1 answer     5 tokens in, 6 out, 0.001 USD
conversation c-01, 4 turns
#1 user       Hello
#2 assistant  **a**ha
#3 user       two …
#4 assistant  you said: Hello
`, got.stdout)
	s.stop()
	s = w.serve()

	w.env = append(w.env, "FERMENT_LOG=off")
	got = w.chat("/model mine/spare\n/edit #1 Bye\n/select #2\n/undo\n/regenerate #2\n/select #2 1\n/fork #1 c-02\nagain\n/export c-02.md\n", "c-01")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Equal(t, `the next answer is from mine/spare
you said: Bye
turn #2 has 2 alternatives
1             llm/voice: **a**ha
2 (selected)  mine/spare: you said: Bye
undone: the conversation has 4 turns and ends with
user: two
lines
assistant: you said: Hello
you said: Hello
assistant: **a**ha
a copy of conversation c-01
conversation c-02, 1 turn
user: Hello
you said: Hello
written to c-02.md
`, got.stdout)
	exported, err := os.ReadFile(filepath.Join(w.dir, "c-02.md"))
	require.NoError(t, err)
	assert.Equal(t, "# Conversation c-02\n\n## user\n\nHello\n\n## user\n\nagain\n\n## assistant (mine/spare)\n\nyou said: Hello\n", string(exported))
	assert.Equal(t, "Hello|**a**ha", w.texts(t, "c-01"), "the fork left it")

	// CNV-013: the host gives an agent the messages of a conversation of the caller.
	got = w.run("act", "agent/run", `{:conversation/id "c-01"}`, "--edn")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Contains(t, got.stdout, "the agent heard Hello")
	got = w.run("act", "agent/run", `{:conversation/id "c-99"}`)
	assert.Equal(t, 5, got.code, got.stderr)
	got = w.chat("Hello\n/undo\n/undo\n", "c-03", "--model", "mine/spare")
	assert.Equal(t, 2, got.code)
	assert.Contains(t, got.stdout, "undone: the conversation is empty\n")
	assert.Contains(t, got.stderr, "no change to undo")
	got = w.chat("/regenerate #1\n", "c-03", "--model", "mine/spare")
	assert.Contains(t, got.stderr, "the conversation has 0 turns")
	assert.Contains(t, got.stderr, "send a message first")
	s.stop()
}

// An edit is one commit: what it replaced can be undone at once.
func TestChatEdits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, chatWorld()...)
	got := w.chat("one\n/model mine/spare\n/edit 1 wrong turn\n/undo\n/branch\n/edit #9 x\n", "--local")
	assert.Equal(t, 5, got.code, got.stderr)
	assert.Contains(t, got.stdout, "you said: 1 wrong turn\n")
	assert.Contains(t, got.stdout, "#1 user       one (2 alternatives)\n#2 assistant  **a**ha (2 alternatives)\n")
	assert.Contains(t, got.stderr, "there is no turn #9, the conversation has 2 turns")

	got = w.chat("one\n/model mine/spare\n/edit\n", "--local", "--model", "llm/voice")
	assert.Equal(t, 0, got.code, got.stderr)

	w = newWorld(t, chatWorld()...)
	got = w.chat("one\n/edit #1 two\n", "--local", "--agent", "agent/assistant")
	assert.Equal(t, "the agent heard one\nthe agent heard two\n", got.stdout)
}

// CNV-021, CNV-024: an edit that gets no answer leaves the conversation as it was, and its
// text is kept. Turns that another client has made stale are marked.
func TestChatEditWithoutAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, chatWorld(onDisk)...)
	s := w.serve()
	got := w.chat("one\n", "c-01")
	require.Equal(t, 0, got.code, got.stderr)
	got = w.chat("/edit #1 no answer\n", "c-01", "--model", "mine/absent")
	require.NotEqual(t, 0, got.code, got.stdout)
	kept := w.say(t, "get", `{:conversation/id "c-01"}`)
	assert.Equal(t, "one|**a**ha", w.texts(t, "c-01"))
	assert.Equal(t, "1", kept.Key("version").String(), "no other reader has seen a change")
	assert.Contains(t, kept.Key("drafts").String(), `"no answer"`)

	first, _ := kept.Key("turns").Nth(0)
	w.say(t, "edit", `{:conversation/id "c-01" :turn/id `+first.Key("turn/id").String()+` :text "other" :tail :keep}`)
	got = w.chat("/branch\n", "c-01")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Contains(t, got.stdout, "#2 assistant  **a**ha (stale: a turn before it was changed)\n")
	s.stop()
}

// An export is read in parts, and is what get returns as a whole.
func TestChatExportsInParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, chatWorld(onDisk)...)
	s := w.serve()
	w.say(t, "open", `{:conversation/id "c-01"}`)
	var messages strings.Builder
	for i := range 20 { // each is two turns
		fmt.Fprintf(&messages, `{:role :user :content "q %d"} {:role :assistant :content "a %d"} {:role :assistant :content "more"}`, i, i)
	}
	w.say(t, "append", `{:conversation/id "c-01" :messages [`+messages.String()+`]}`)
	got := w.run("act", "conversation/send", `{:conversation/id "c-01" :text "kept" :model {:cap/ref :mine/absent}}`)
	require.NotEqual(t, 0, got.code, got.stdout)
	got = w.chat("/branch\n/export c-01.edn\n", "c-01")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Contains(t, got.stdout, "conversation c-01, 40 turns\n#31 user")
	exported, err := os.ReadFile(filepath.Join(w.dir, "c-01.edn"))
	require.NoError(t, err)
	whole := w.say(t, "get", `{:conversation/id "c-01"}`)
	assert.Equal(t, 60, whole.Key("messages").Len())
	assert.True(t, edn.MustRead(string(exported)).Equal(whole), "%s", exported)
	s.stop()
}

// CNV-020, CNV-029: two chats that begin a conversation notice each other, as later ones do. A
// command is not executed on turns that its user has not seen.
func TestChatConflicts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, chatWorld(onDisk)...)
	s := w.serve()
	e := w.emulate(60, 20, nil, "chat", "c-01", "--model", "mine/spare")
	ready := "c-01 · mine/spare · /help"
	e.shows("new conversation c-01", ready, ">")
	for _, text := range []string{"first", "second"} {
		got := w.chat(text+"\n", "c-01", "--model", "mine/spare")
		require.Equal(t, 0, got.code, got.stderr)
		e.types("mine\r")
		e.shows("  shows its turns; send the message again to add it after", "  them", ready, "> mine")
		e.types("\r")
		e.shows("you said: first", ready, ">")
	}
	for _, command := range []string{"/edit #1 mine", "/regenerate", "/select #2 1", "/undo", "/fork #1 c-02"} {
		got := w.chat("other\n", "c-01", "--model", "mine/spare")
		require.Equal(t, 0, got.code, got.stderr)
		before := w.texts(t, "c-01")
		e.types(command + "\r")
		e.shows("  shows its turns; enter the command again to execute it on", "  these", ready, "> "+command)
		assert.Equal(t, before, w.texts(t, "c-01"), command)
		e.types("\x03")
		e.shows("  these", ready, ">")
	}
	e.types("/undo\r")
	e.shows("> other", "you said: first", ready, ">")
	e.types("/quit\r")
	assert.Equal(t, 0, e.ends())
	s.stop()
}

// The first line that fails ends a script with the exit code of its error; other
// formats have an answer per line.
func TestChatScripts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, chatWorld()...)
	got := w.chat("/regenerat\nHello\n")
	assert.Equal(t, 2, got.code)
	assert.Empty(t, got.stdout)
	assert.Contains(t, got.stderr, `did you mean /regenerate`)
	got = w.chat("Hello\n/cost\n", "--edn")
	require.Equal(t, 0, got.code, got.stderr)
	v, err := edn.ReadString(got.stdout)
	require.NoError(t, err, got.stdout)
	assert.Equal(t, `"**a**ha"`, v.Key("text").String())
	got = w.chat("Hello\n", "--model", "mine/spare", "--system", "Be brief.")
	assert.Equal(t, "you said: Be brief.\n", got.stdout, "the user of the host may (PRM-003)")
	got = w.chat("/model nobody/there\n")
	assert.Equal(t, 5, got.code)
	got = w.chat("Hello\n/export x.md\n/export x.md\n")
	assert.Equal(t, 6, got.code)
	assert.Contains(t, got.stderr, "the file x.md already exists")
	for _, name := range []string{"absent/x.md", "x.md/y.md"} { // a directory that does not exist, or is a file
		got = w.chat("Hello\n/export " + name + "\n")
		assert.Equal(t, 2, got.code)
		assert.Contains(t, got.stderr, "write "+name)
		assert.Contains(t, got.stderr, "a directory that exists")
	}
}

// Without a model a chat says what to configure, and what answers without one.
func TestChatWithoutModel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ferment.hcl", testProfile+shipped("text", "text"))
	got := w.chat("Hello\n")
	assert.Equal(t, 1, got.code, got.stderr)
	assert.Contains(t, got.stderr, "no model serves :model/chat")
	_, command, offered := strings.Cut(strings.Join(strings.Fields(got.stderr), " "), "Try: ")
	require.True(t, offered, got.stderr)
	assert.Contains(t, command, "context/summarize")
	got = w.shell(command)
	assert.Equal(t, 0, got.code, got.stderr)
	assert.Contains(t, got.stdout, "A text of your own.")

	// The offered command works in the project of init, and elsewhere with the flags of the chat.
	w = newcomer(t)
	require.Equal(t, 0, w.run("init", "my project").code)
	for _, flags := range [][]string{{"--config", "my project"}, nil} {
		if flags == nil {
			w.dir = filepath.Join(w.dir, "my project")
		}
		got = w.chat("Hello\n", flags...)
		_, command, offered = strings.Cut(strings.Join(strings.Fields(got.stderr), " "), "Try: ")
		require.True(t, offered, got.stderr)
		got = w.shell(command)
		assert.Equal(t, 0, got.code, "%s\n%s", command, got.stderr)
		assert.Contains(t, got.stdout, "A text of your own.", command)
	}
}

// CLI-006: the examples of the help work.
func TestChatExamples(t *testing.T) {
	t.Parallel()
	w := newWorld(t, chatWorld()...)
	examples := section(w.run("chat", "--help").stdout, "Examples:")
	require.NotEmpty(t, examples)
	for _, line := range examples {
		got := w.shell(line)
		assert.Equal(t, 0, got.code, "%s\n%s", line, got.stderr)
	}
}
