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
