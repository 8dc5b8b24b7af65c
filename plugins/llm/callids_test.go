package main

import (
	"fmt"
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
			later := ask(nextRound(ids...))
			assert.NotContains(t, later, ids[0], about)
			assert.NotContains(t, later, ids[1], about)
			assert.NotEqual(t, later[0], later[1], about)
		}
	}
}

// nextRound returns the input after a round of calls with these ids.
func nextRound(ids ...string) string {
	var calls, results []string
	for _, id := range ids {
		calls = append(calls, fmt.Sprintf(`{:id %q :tool/id :fs/read :args {:path "a"}}`, id))
		results = append(results, fmt.Sprintf(`{:role :tool :tool/id %q :content "x"}`, id))
	}
	more := fmt.Sprintf(`{:role :assistant :content "" :tool/calls [%s]} %s`, strings.Join(calls, " "), strings.Join(results, " "))
	input := edn.MustRead(withTools)
	messages := input.Key("messages").String()
	return strings.Replace(input.String(), messages, strings.TrimSuffix(messages, "]")+" "+more+"]", 1)
}

// LLM-045: calls are kept apart also if a server gives all of them one index, or none. Fragments of
// one call stay together, also if a server repeats its name, or makes an id for each.
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
}
