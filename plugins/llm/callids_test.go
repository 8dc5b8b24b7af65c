package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// calledTwice returns an answer of two calls with these ids.
func (k talk) calledTwice(first, second string) []string {
	call := func(id string) string { return k.tool(id, "fs__read", `{"path":"a"}`) }
	next := strings.NewReplacer(`"tool_calls":[{"index":0`, `"tool_calls":[{"index":1`,
		`"type":"content_block_start","index":1`, `"type":"content_block_start","index":2`,
		`"type":"content_block_delta","index":1`, `"type":"content_block_delta","index":2`,
		`"output_index":1`, `"output_index":2`, "fc_1", "fc_2")
	return []string{k.start, call(first), next.Replace(call(second)), k.finish("tool"), k.end}
}

// idsOf returns the ids of the calls of an answer, which is also a message that can be sent back.
func idsOf(t *testing.T, o outcome) (ids []string) {
	t.Helper()
	require.Nil(t, o.err)
	m, err := contract.MessageFromAnswer(o.out)
	require.Nil(t, err, "the answer is a message")
	for c := range m.Calls() {
		ids = append(ids, c.ID)
	}
	return ids
}

// LLM-023, LLM-024: a call at the place of an earlier one does not get its arguments, and a call is not joined from
// two answers: the answer is rejected.
func TestAnthropicCallAtAUsedPlace(t *testing.T) {
	k := talks()["anthropic-messages"]
	stop := k.event(`{"type":"content_block_stop","index":1}`)
	start := func(id, name string) string {
		return k.event(`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"` + id + `","name":"` + name + `","input":{}}}`)
	}
	for name, body := range map[string][]string{
		"after its end": {k.start, k.tool("a", "fs__read", `{"path":"x"}`), stop, start("b", "fs__list"), stop, k.finish("tool"), k.end},
		"of a second answer": {
			k.start, k.tool("a", "fs__read", `{"pa`), k.start, k.tool("b", "fs__list", `th":"x"}`), stop, k.finish("tool"), k.end,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "anthropic-messages", "", "")
			r.server.Then(k.says(body...))
			o := r.ask(t.Context(), "model/chat", withTools, "", nil)
			require.NotNil(t, o.err)
			assert.Equal(t, "stream/truncated", o.err.Type)
		})
	}
}

// LM-008, LLM-023: each call has an id of its own, also if the server states none, or one twice, or
// one of an earlier round. The same request gives the same ids.
func TestCallsHaveIDs(t *testing.T) {
	for _, dialect := range dialects() {
		k := talks()[dialect]
		r := newRig(t, dialect, "", "")
		for _, stated := range [][]string{{"", ""}, {"a", "a"}, {"a", ""}, {"a", "b"}} {
			about := fmt.Sprintf("%s %q", dialect, stated)
			ask := func(input string) []string {
				r.server.Then(k.says(k.calledTwice(stated[0], stated[1])...))
				return idsOf(t, r.ask(t.Context(), "model/chat", input, "", nil))
			}
			ids := ask(withTools)
			require.Len(t, ids, 2, about)
			assert.NotEqual(t, ids[0], ids[1], about)
			assert.Equal(t, ids, ask(withTools), about)
			if stated[0] == "a" {
				assert.Equal(t, "a", ids[0], about)
			}
			later := ask(afterRounds(ids...))
			assert.NotContains(t, later, ids[0], about)
			assert.NotContains(t, later, ids[1], about)
			assert.NotEqual(t, later[0], later[1], about)
		}
	}
}

// afterRounds returns the input after rounds of one call each with these ids.
func afterRounds(ids ...string) string {
	var rounds []string
	for _, id := range ids {
		rounds = append(rounds, fmt.Sprintf(`{:role :assistant :content "" :tool/calls [{:id %q :tool/id :fs/read :args {:path "a"}}]}
			{:role :tool :tool/id %q :content "x"}`, id, id))
	}
	messages := edn.MustRead(withTools).Key("messages").String()
	return edn.MustRead(withTools).AssocKey("messages",
		edn.MustRead(strings.TrimSuffix(messages, "]")+strings.Join(rounds, " ")+"]")).String()
}

// LLM-045: calls are kept apart also if a server gives all of them one index, or none. Fragments of
// one call stay together, also if a server repeats its name, or makes an id for each. An answer
// without the call of an index is rejected.
func TestCallsWithOneIndex(t *testing.T) {
	k := talks()["openai-chat"]
	chunk := func(field, calls string) string {
		return k.event(`{"id":"c-1","object":"chat.completion.chunk","model":"served","choices":[{"index":0,"` + field + `":{"tool_calls":[` + calls + `]}}]}`)
	}
	call := func(index, id, name, args string) string {
		return `{` + index + `"id":` + id + `,"type":"function","function":{"name":` + name + `,"arguments":` + quoted(args) + `}}`
	}
	const zero, a, b, name = `"index":0,`, `{"path":"a"}`, `{"path":"b"}`, `"fs__read"`
	two := []string{`{:path "a"}`, `{:path "b"}`}
	for _, tt := range []struct {
		about string
		parts []string
		want  []string
	}{
		{"in one chunk", []string{chunk("delta", call(zero, `"1"`, name, a)+","+call(zero, `"2"`, name, b))}, two},
		{"in two chunks", []string{chunk("delta", call(zero, `"1"`, name, a)), chunk("delta", call(zero, `"2"`, name, b))}, two},
		{"without ids", []string{chunk("delta", call(zero, `""`, name, a)+","+call(zero, `""`, name, b))}, two},
		{"without ids or indexes", []string{chunk("delta", call("", `null`, name, a)+","+call("", `null`, name, b))}, two},
		{"in one piece", []string{chunk("message", call("", `null`, name, a)+","+call("", `null`, name, b))}, two},
		{"in fragments", []string{
			chunk("delta", call(zero, `"1"`, name, a[:5])), chunk("delta", call(zero, `null`, `null`, a[5:])),
			chunk("delta", call(zero, `"2"`, name, b[:5])), chunk("delta", call(zero, `null`, `null`, b[5:])),
		}, two},
		{"the next index was taken before", []string{
			chunk("delta", call(zero, `"1"`, name, a)+","+call(zero, `"2"`, name, b)), chunk("delta", call(`"index":1,`, `"3"`, name, a)),
		}, append(two[:2:2], two[0])},
		{"an id for each fragment", []string{
			chunk("delta", call(zero, `"1"`, name, a[:5])), chunk("delta", call(zero, `"2"`, `null`, a[5:])),
		}, two[:1]},
		{"from another index on", []string{
			chunk("delta", call(`"index":1,`, `"1"`, name, a)), chunk("delta", call(`"index":2,`, `"2"`, name, b)),
		}, two},
		{"the name with each fragment", []string{
			chunk("delta", call(zero, `"1"`, name, a[:5])), chunk("delta", call(zero, `"1"`, name, a[5:])), chunk("delta", call(zero, `""`, name, "")),
		}, two[:1]},
	} {
		r := newRig(t, "openai-chat", "", "", k.says(append(tt.parts, k.finish("tool"), k.end)...))
		o := r.ask(t.Context(), "model/chat", withTools, "", nil)
		assert.Len(t, idsOf(t, o), len(tt.want), tt.about)
		var args []string
		for c := range o.out.Key("tool/calls").Elems() {
			args = append(args, c.Key("args").String())
		}
		assert.Equal(t, tt.want, args, tt.about)
	}
	for about, parts := range map[string][]string{
		"a call between two is missing": {
			chunk("delta", call(zero, `"1"`, name, a)), chunk("delta", call(`"index":2,`, `"3"`, name, b)),
		},
		"the same in one chunk": {chunk("delta", call(zero, `"1"`, name, a)+","+call(`"index":2,`, `"3"`, name, b))},
	} {
		r := newRig(t, "openai-chat", "", "", k.says(append(parts, k.finish("tool"), k.end)...))
		o := r.ask(t.Context(), "model/chat", withTools, "", nil)
		require.NotNil(t, o.err, about)
		assert.Equal(t, "stream/truncated", o.err.Type, about)
	}
}

// LM-008, LLM-023: the ids of calls of another provider are replaced where the server does not accept
// them, in the call and in its result. Accepted ones are kept, and an id that an earlier call has
// is not sent again.
func TestServersGetIDsThatTheyAccept(t *testing.T) {
	long := strings.Repeat("x", 70)
	stated := []string{"functions.fs__read:0", long, "call-1", "call_abc", "aB3dE6gH9"}
	for _, tt := range []struct {
		dialect, preset, model string
		accepts                string
	}{
		{"openai-chat", "openai", "", `^.{1,40}$`},
		{"openai-responses", "openai-responses", "", `^.{1,64}$`},
		{"anthropic-messages", "anthropic", "", `^[a-zA-Z0-9_-]+$`},
		{"openai-chat", "mistral", "", `^[a-zA-Z0-9]{9}$`},
		{"openai-chat", "openrouter", "", `^.{1,40}$`},
		{"openai-chat", "openrouter", "mistralai/mistral-small", `^[a-zA-Z0-9]{9}$`},
		{"openai-chat", "vllm", "", `^.+$`},
	} {
		model, whole := "", ""
		if tt.dialect == "openai-chat" && tt.preset != "openai" {
			whole = fmt.Sprintf(`{:provider "compatible" :preset %q}`, tt.preset)
		}
		if tt.model != "" {
			model = fmt.Sprintf("{:name %q}", tt.model)
		}
		r := newRig(t, tt.dialect, model, whole, talks()[tt.dialect].whole("x"))
		if whole != "" {
			r.id = "compatible/voice"
		}
		sent := func() (calls, results []string) {
			require.Nil(t, r.ask(t.Context(), "model/chat", afterRounds(append(stated, stated...)...), "", nil).err, tt.preset)
			requests := r.server.Requests()
			body := requests[len(requests)-1].Body
			ids := regexp.MustCompile(`"(?:id|call_id|tool_call_id|tool_use_id)":"([^"]*)"`).FindAllStringSubmatch(body, -1)
			for pair := range slices.Chunk(ids, 2) { // a call and its result
				calls, results = append(calls, pair[0][1]), append(results, pair[1][1])
			}
			return calls, results
		}
		calls, results := sent()
		require.Len(t, calls, 2*len(stated), tt.preset)
		assert.Equal(t, calls, results, tt.preset)
		seen := map[string]bool{}
		for i, id := range calls {
			assert.Regexp(t, tt.accepts, id, tt.preset)
			assert.False(t, seen[id], "%s: %s is unique", tt.preset, id)
			seen[id] = true
			if i < len(stated) && regexp.MustCompile(tt.accepts).MatchString(stated[i]) {
				assert.Equal(t, stated[i], id, tt.preset)
			}
		}
		again, _ := sent()
		assert.Equal(t, calls, again, "%s: the same conversation gives the same ids", tt.preset)
	}
}
