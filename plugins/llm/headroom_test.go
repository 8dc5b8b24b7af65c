package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/provider/wiretest"
)

// BUD-002: the tokens that a request leaves for reasoning are reserved with the
// limit of the answer, as declared and as learned from an empty answer. A call
// that the budget covers only without them is not made, and a plugin that learned
// to leave more than the host reserved does not ask for it.
func TestHeadroomIsReserved(t *testing.T) {
	server := wiretest.Serve(t)
	k := talks()["openai-chat"]
	block := accountBlock("openai", "openai", server.URL, []string{"voice"}, withKey)
	bin := programs(t)
	d := daemonOf(t, bin, wallConfig(bin, strings.Replace(block, `"sample"`, `"gpt-5-mini"`, 1)), map[string]string{"spare.edn": spareScript()}, "WALL_KEY="+canary)
	fine, empty := k.whole("Fine."), k.says(k.start, k.finish("length"), k.end)
	for _, tt := range []struct {
		name, kind, usd string
		plays           []wiretest.Transcript
		limits          []float64 // of the requests; none: the model is not asked
	}{
		{"the answer alone fits", "plain", "0.001M", nil, nil}, // 400 tokens at 2 per million
		{"the reasoning fits too", "plain", "0.006M", []wiretest.Transcript{fine}, []float64{2448}},
		{"reasoning used up the limit", "plain", "0.03M", []wiretest.Transcript{empty, fine}, []float64{2448, 5296}},
		{"what was learned does not fit", "plain", "0.006M", nil, nil},
		{"the plugin knows more than the host", "gate-passed", "0.006M", []wiretest.Transcript{fine}, []float64{2448}},
	} {
		before := len(server.Requests())
		server.Then(tt.plays...)
		h := d.act(t.Context(), fmt.Sprintf(`{:proto 1 :trace {:id "headroom"} :input %s :debug/transcript? true :budget {:max-tokens 400 :max-usd %s}
		  :task {:intent :wall/%s :dispatch {:candidates [:openai/voice] :retry {:same-cap-max 1}}}}`, hello, tt.usd, tt.kind), false)
		var limits []float64
		for _, request := range server.Requests()[before:] {
			var body struct {
				Limit float64 `json:"max_completion_tokens"`
			}
			require.NoError(t, json.Unmarshal([]byte(request.Body), &body))
			limits = append(limits, body.Limit)
		}
		assert.Equal(t, tt.limits, limits, "%s: %s", tt.name, h.raw)
		if tt.limits == nil {
			assert.Equal(t, ":budget/exceeded", h.response.Key("error").Key("type").String(), "%s: %s", tt.name, h.raw)
			continue
		}
		assert.Equal(t, "Fine.", h.out(), "%s: %s", tt.name, h.raw)
	}
}

// BUD-002: a call without a limit gets what is left as its limit where that is little, also
// for reasoning. What one request allows for reasoning is not reserved for others.
func TestReservedIsTheLimit(t *testing.T) {
	server := wiretest.Serve(t)
	k := talks()["openai-chat"]
	block := accountBlock("openai", "openai", server.URL, []string{"voice"}, withKey)
	bin := programs(t)
	block = strings.NewReplacer(`"sample"`, `"gpt-5-mini"`, `"wall/plain"`, `"wall/plain", "model/chat"`).Replace(block)
	d := daemonOf(t, bin, wallConfig(bin, block), map[string]string{"spare.edn": spareScript()}, "WALL_KEY="+canary)
	fine, empty := k.whole("Fine."), k.says(k.start, k.finish("length"), k.end)
	const chatted = `:messages [{:role :user :content "Hi"}]}`
	for _, tt := range []struct {
		name, budget, intent, input string
		plays                       wiretest.Transcript
		limit                       float64 // of the request
	}{
		{"little is left", "{:max-tokens-out 700}", "wall/plain", hello, fine, 700},
		{"much is left", "{:max-tokens-out 70000}", "wall/plain", hello, fine, 0},
		{"a budget that is dropped", "{:max-tokens 100}", "model/chat", `{:reasoning {:budget-tokens 50000} ` + chatted, empty, 2148},
		{"the next one", "{:max-tokens 100 :max-tokens-out 3000}", "model/chat", `{` + chatted, fine, 3000},
	} {
		before := len(server.Requests())
		server.Then(tt.plays)
		h := d.act(t.Context(), fmt.Sprintf(`{:proto 1 :trace {:id "headroom"} :input %s :budget %s
		  :task {:intent :%s :dispatch {:candidates [:openai/voice] :retry {:same-cap-max 0}}}}`, tt.input, tt.budget, tt.intent), false)
		requests := server.Requests()[before:]
		require.Len(t, requests, 1, "%s: %s", tt.name, h.raw)
		var body struct {
			Limit float64 `json:"max_completion_tokens"`
		}
		require.NoError(t, json.Unmarshal([]byte(requests[0].Body), &body))
		assert.Equal(t, tt.limit, body.Limit, "%s: %s", tt.name, h.raw)
	}
}

// BUD-002: a format that requires a limit, and adds the budget for reasoning to it, stays
// within what is reserved.
func TestReservedHoldsReasoning(t *testing.T) {
	server := wiretest.Serve(t)
	k := talks()["anthropic-messages"]
	block := strings.NewReplacer(`"sample"`, `"claude-sonnet-4-5"`, `"wall/plain"`, `"wall/plain", "model/chat"`).
		Replace(accountBlock("anthropic", "anthropic", server.URL, []string{"voice"}, withKey))
	bin := programs(t)
	d := daemonOf(t, bin, wallConfig(bin, block), map[string]string{"spare.edn": spareScript()}, "WALL_KEY="+canary)
	for _, tt := range []struct{ left, limit, reasoning float64 }{
		{700, 700, 0}, {3000, 3000, 1500}, {5000, 4096, 0}, {6000, 6000, 1904}, {70000, 7096, 3000},
	} {
		before := len(server.Requests())
		server.Then(k.whole("Fine."))
		h := d.act(t.Context(), fmt.Sprintf(`{:proto 1 :trace {:id "headroom"} :budget {:max-tokens-out %v}
		  :input {:reasoning {:budget-tokens 3000} :messages [{:role :user :content "Hi"}]}
		  :task {:intent :model/chat :dispatch {:candidates [:anthropic/voice] :retry {:same-cap-max 0}}}}`, tt.left), false)
		requests := server.Requests()[before:]
		require.Len(t, requests, 1, "%v: %s", tt.left, h.raw)
		var body struct {
			Limit    float64 `json:"max_tokens"`
			Thinking struct {
				Budget float64 `json:"budget_tokens"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(requests[0].Body), &body))
		assert.Equal(t, []float64{tt.limit, tt.reasoning}, []float64{body.Limit, body.Thinking.Budget}, "%v: %s", tt.left, h.raw)
	}
}
