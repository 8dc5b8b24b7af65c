package clean_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/clean"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/text"
)

const tools = `[{:tool/id :fs/read-file} {:tool/id "weather"}]`

// call is the markup of one tool call in a text.
func call(body string) string { return "<tool_call>" + body + "</tool_call>" }

// TXT-001: every answer either comes out clean or fails with the given type.
func TestAnswer(t *testing.T) {
	for name, row := range map[string]struct {
		answer    edn.Value
		tools     string
		max       int
		want, typ string
		cut       bool
	}{
		"neither text nor map": {answer: edn.Int(1), want: "1"},
		"a bare text":          {answer: edn.Text("<think>hm</think> yes"), want: `"yes"`},
		"a bare text of reasoning alone": {
			answer: edn.Text("<think>hm</think>"), typ: "provider/empty",
		},
		"a map without prose": {answer: edn.MustRead(`{:n 1}`), want: `{:n 1}`},
		"an empty text":       {answer: edn.MustRead(`{:text "<think>a</think>"}`), typ: "provider/empty"},
		"an empty text beside code": {
			answer: edn.MustRead(`{:text "" :code "x"}`), want: `{:code "x" :text ""}`,
		},
		"control characters": {
			answer: edn.MustRead(`{:text "a\u0000b\tc\nd" :parts [{:type :text :text "a\u0000b\tc\nd"}]}`),
			want:   `{:text "ab\tc\nd"}`,
		},
		"parts without control characters": {
			answer: edn.MustRead(`{:text "a" :parts [{:type :thinking :text "b\nc"} {:type :text :text "a"}]}`),
			want:   `{:parts [{:text "b\nc" :type :thinking} {:text "a" :type :text}] :text "a"}`,
		},
		"control characters alone": {answer: edn.MustRead(`{:text "\u0000\u0007"}`), typ: "provider/empty"},
		"an empty explanation":     {answer: edn.MustRead(`{:explanation "" :n 1}`), want: `{:explanation "" :n 1}`},
		"a patch keeps its tags": {
			answer: edn.MustRead(`{:patch "<think>x</think>"}`), want: `{:patch "<think>x</think>"}`,
		},
		"only :text is shortened": {
			answer: edn.MustRead(`{:text "One. Two. Three." :summary "One. Two. Three."}`), max: 9,
			want: `{:summary "One. Two. Three." :text "One. Two."}`, cut: true,
		},
		"a tool call becomes structured": {
			answer: edn.Text(call(`{"name": "fs_read_file", "arguments": {"path": "a"}}`)), tools: tools,
			want: `{:text "" :tool/calls [{:args {:path "a"} :id "uiep9o3r1" :tool/id :fs/read-file}]}`,
		},
		"a call in the text ends the answer like any other": {
			answer: edn.MustRead(`{:text "<tool_call>{\"name\": \"weather\", \"arguments\": {}}</tool_call>" :finish :stop}`),
			tools:  tools, want: `{:finish :tool-calls :text "" :tool/calls [{:args {} :id "uiep9o3r1" :tool/id "weather"}]}`,
		},
		"a call before the limit": {
			answer: edn.MustRead(`{:text "<tool_call>{\"name\": \"weather\", \"arguments\": {}}</tool_call>" :finish :length}`),
			tools:  tools, want: `{:finish :length :text "" :tool/calls [{:args {} :id "uiep9o3r1" :tool/id "weather"}]}`,
		},
		"the id of a call is not one that is taken": {
			answer: edn.MustMap(edn.K("text"), edn.Text("x "+call(`{"name": "weather", "arguments": {}}`)),
				edn.K("tool/calls"), edn.MustRead(`[{:id "uiep9o3r1"}]`)), tools: tools,
			want: `{:text "x" :tool/calls [{:id "uiep9o3r1"} {:args {} :id "phj52lau4" :tool/id "weather"}]}`,
		},
		"a call without tools": {
			answer: edn.Text(call(`{"name": "weather", "arguments": {}}`)), typ: "format/drift",
		},
		"a call of another tool": {
			answer: edn.Text(call(`{"name": "rm", "arguments": {}}`)), tools: tools, typ: "format/drift",
		},
		"a call that breaks off": {answer: edn.Text(`<tool_call>{"name": "weather"`), tools: tools, typ: "format/drift"},
	} {
		t.Run(name, func(t *testing.T) {
			c := clean.Cleaner{How: text.Cleaning{MaxChars: row.max, Language: "en"}, Candidate: "m/a", Node: "n"}
			if row.tools != "" {
				c.Input = edn.MustMap(edn.K("tools"), edn.MustRead(row.tools))
			}
			got, err := c.Answer(row.answer)
			if row.typ != "" {
				require.NotNil(t, err)
				assert.Equal(t, row.typ, err.Type)
				return
			}
			require.Nil(t, err)
			assert.Equal(t, row.want, got.String())
			assert.Equal(t, row.cut, c.Cut)
		})
	}
}

// LM-008: calls of later rounds get ids that no earlier round has, also if the model writes the same
// id again. The same request gives the same ids.
func TestCallIDsOfRounds(t *testing.T) {
	ask := func(input, body string) string {
		c := clean.Cleaner{Input: edn.MustRead(input)}
		got, err := c.Answer(edn.Text(call(body)))
		require.Nil(t, err)
		one, _ := got.Key("tool/calls").Nth(0)
		id, _ := one.Key("id").AsString()
		return id
	}
	round := func(id string) string {
		return `{:tools [{:tool/id "weather"}] :messages [{:role :user :content "x"}
			{:role :assistant :tool/calls [{:id "` + id + `" :tool/id "weather" :args {}}]} {:role :tool :tool/id "` + id + `" :content "y"}]}`
	}
	const first = `{:tools [{:tool/id "weather"}] :messages [{:role :user :content "x"}]}`
	for _, body := range []string{`{"name": "weather", "arguments": {}}`, `{"id": "a", "name": "weather", "arguments": {}}`} {
		id := ask(first, body)
		assert.Equal(t, id, ask(first, body), "the same request gives the same id")
		assert.NotEmpty(t, id)
		assert.NotEqual(t, id, ask(round(id), body), body)
	}
}

// The error of a call that cannot be understood is one of the plugin, and holds
// the bounded start of the text without its reasoning.
func TestDrift(t *testing.T) {
	c := clean.Cleaner{}
	_, err := c.Answer(edn.Text("<think>secret</think>" + strings.Repeat("ż", 8<<10) + call(`{"name": "x", "arguments": {}}`)))
	require.NotNil(t, err)
	assert.Equal(t, contract.SourcePlugin, err.Source)
	raw, _ := err.Details.Key("raw").AsString()
	assert.LessOrEqual(t, len(raw), 4<<10)
	assert.True(t, strings.HasPrefix(raw, "żż"), "%.20q", raw)
}
