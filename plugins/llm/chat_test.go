package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// field is a field of the last request, as JSON.
func (r *rig) field(name string) string {
	r.t.Helper()
	v, ok := r.body()[name]
	if !ok {
		return ""
	}
	text, err := json.Marshal(v)
	require.NoError(r.t, err)
	return string(text)
}

// unsent is an error that says that nothing was sent.
func (r *rig) unsent(o outcome, typ, about string) {
	r.t.Helper()
	require.NotNil(r.t, o.err, about)
	assert.Equal(r.t, typ, o.err.Type, "%s: %s", about, o.err)
	assert.Empty(r.t, r.server.Requests(), "%s: nothing was sent", about)
}

const twoTools = `:tools [{:tool/id :fs/read :in-schema [:map [:path :string]]} {:tool/id :fs/list :in-schema [:map]}]`

// LM-008: the choice of tools goes where the dialect has it. What it cannot say
// is refused before anything is sent.
func TestToolChoice(t *testing.T) {
	for dialect, want := range map[string]map[string]string{
		"openai-chat": {
			":auto": `"auto"`, ":none": `"none"`, ":required": `"required"`, ":fs/read": `{"function":{"name":"fs__read"},"type":"function"}`,
		},
		"anthropic-messages": {
			":auto": `{"type":"auto"}`, ":none": `{"type":"none"}`, ":required": `{"type":"any"}`, `"fs/read"`: `{"name":"fs__read","type":"tool"}`,
		},
		"ollama-chat": {":auto": "", ":none": "", ":required": "refused", ":fs/read": "refused"},
	} {
		for choice, field := range want {
			k := talks()[dialect]
			answer := k.whole("Fine.")
			if choice != ":auto" && choice != ":none" {
				answer = k.says(k.start, k.tool("t1", "fs__read", `{"path":"a"}`), k.finish("tool"), k.end)
			}
			r := newRig(t, dialect, "", "", answer)
			o := r.ask(t.Context(), "model/chat", `{:messages [{:role :user :content "Hi."}] `+twoTools+` :tool-choice `+choice+`}`, "", nil)
			about := dialect + " " + choice
			if field == "refused" {
				r.unsent(o, "provider/request-invalid", about)
				assert.Equal(t, "false", o.err.Details.Key("sent?").String(), about)
				continue
			}
			require.Nil(t, o.err, about)
			assert.Equal(t, field, r.field("tool_choice"), about)
			assert.Equal(t, dialect == "ollama-chat" && choice == ":none", r.field("tools") == "", "%s: who may not call a tool need not see any", about)
			assert.True(t, o.meta.Key("options/dropped").IsNil(), about)
		}
	}
}

// LM-008: a choice that nothing can fit is one typed error, and so is an answer
// that does not follow it.
func TestToolChoiceIsFollowed(t *testing.T) {
	k := talks()["openai-chat"]
	for choice, input := range map[string]string{
		":required": ``, ":fs/write": twoTools, "7": twoTools, "[:auto]": twoTools, `""`: twoTools,
	} {
		r := newRig(t, "openai-chat", "", "")
		r.unsent(r.ask(t.Context(), "model/chat", `{:messages [{:role :user :content "Hi."}] `+input+` :tool-choice `+choice+`}`, "", nil), "input/invalid", choice)
	}
	calls := func(name string) []string {
		return []string{k.start, k.tool("t1", name, `{"path":"a"}`), k.finish("tool"), k.end}
	}
	for name, tt := range map[string]struct {
		choice string
		parts  []string
	}{
		"a text where a call is demanded":   {":required", []string{k.start, k.text("No."), k.finish("stop"), k.end}},
		"a text where one tool is demanded": {":fs/read", []string{k.start, k.text("No."), k.finish("stop"), k.end}},
		"a call of another tool":            {":fs/list", calls("fs__read")},
		"a call where none may be":          {":none", calls("fs__read")},
	} {
		r := newRig(t, "openai-chat", "", "", k.says(tt.parts...))
		o := r.ask(t.Context(), "model/chat", `{:messages [{:role :user :content "Hi."}] `+twoTools+` :tool-choice `+tt.choice+`}`, "", nil)
		require.NotNil(t, o.err, name)
		assert.Equal(t, "provider/tool-call-invalid", o.err.Type, name)
	}
	r := newRig(t, "openai-chat", "", "", k.whole("Fine."))
	require.Nil(t, r.ask(t.Context(), "model/chat", `{:messages [{:role :user :content "Hi."}] :tool-choice :auto}`, "", nil).err)
	assert.Empty(t, r.field("tool_choice"), "without tools there is nothing to choose")
}
