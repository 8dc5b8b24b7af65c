//go:build slow

package host_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// EMB-002, LLM-024, LLM-055, BIND-009: with the shipped file, a first model that
// is down, fails, says nothing or answers badly is followed by the next candidate
// of every intent, within the budget of the intent. If every candidate fails, the
// error says what the last one did.
func TestShippedModelsFallBack(t *testing.T) {
	h := newShippedHost(t, "MLX_MODEL=tiny")
	h.policy = ":policy :declared" // the order of the file, whatever the answers before were like
	var tested []string
	for _, row := range servedByModels {
		tested = append(tested, row.intent)
		t.Run(row.intent, func(t *testing.T) {
			h := h.with(t)
			good := func() {
				for range 4 { // more answers than failures, so that no breaker opens
					v := h.ask(row.intent, "nobody", "none")
					require.Equal(t, ":"+row.first, server(v), "%s", v)
				}
			}
			good()
			for _, fault := range []string{
				"cut", "cut-long", "broken", "holed", "refused", "invalid", "long", "long-gemini", "long-tgi",
				"down", "500", "empty",
			} {
				if fault == "invalid" && !row.structured || fault == "refused" && badAnswers[row.intent] == "" {
					continue
				}
				next, failure := ":"+row.spare, ":"+row.first+" "+failureOf(row.intent, fault)
				if fault == "refused" && row.refusal != "" {
					next, failure = ":"+row.last, row.refusal
				}
				v := h.ask(row.intent, "first", fault)
				assert.Equal(t, next, server(v), "%s: %s", fault, v)
				if failed := failures(v); assert.NotEmpty(t, failed, "%s: %s", fault, v) {
					assert.Contains(t, failed[0], failure, "%s: %s", fault, v)
				}
				good()
				without := h.ask(row.intent, everyModel, fault)
				if row.last != "" {
					assert.Equal(t, ":"+row.last, server(without), "%s: %s", fault, without)
				} else {
					assertFailed(t, without, fault)
				}
				good()
			}
		})
	}
	tested = append(tested, "agent/run")
	t.Run("agent/run", func(t *testing.T) { // its model falls back, the agent goes on
		h := h.with(t)
		for _, fault := range []string{"down", "500", "empty"} {
			v := h.ask("agent/run", "first", fault)
			require.Equal(t, ":agent/assistant", server(v), "%s: %s", fault, v)
			said, _ := v.Key("result").Key("out").Key("messages").Nth(0)
			assert.Equal(t, ":mlx/voice", said.Key("attribution").Key("cap/id").String(), "%s: %s", fault, said)
			for range 4 { // more answers than failures, so that no breaker opens
				require.Equal(t, ":agent/assistant", server(h.ask("agent/run", "nobody", "none")))
			}
			assertFailed(t, h.ask("agent/run", everyModel, fault), fault)
			for range 4 {
				require.Equal(t, ":agent/assistant", server(h.ask("agent/run", "nobody", "none")))
			}
		}
	})
	for _, row := range needNoModel {
		tested = append(tested, row.intent)
		t.Run(row.intent, func(t *testing.T) {
			h := h.with(t)
			v := h.ask(row.intent, everyModel, "500")
			require.Equal(t, ":"+row.first, server(v), "%s", v)
			h.ferment("plugin", "quarantine", row.plugin)
			defer h.ferment("plugin", "release", row.plugin)
			v = h.ask(row.intent, everyModel, "500")
			if row.next != "" {
				assert.Equal(t, ":"+row.next, server(v), "%s", v)
			} else {
				assert.Equal(t, ":runtime/quarantined", v.Key("error").Key("cause").Key("type").String(), "%s", v)
			}
		})
	}
	tested = append(tested, "context/generate") // of the workspace alone; it asks models by the intents above
	shipped, err := os.ReadFile(filepath.Join(h.dir, "ferment.hcl"))
	require.NoError(t, err)
	var declared []string
	for _, m := range declaredIntent.FindAllSubmatch(shipped, -1) {
		declared = append(declared, string(m[1]))
	}
	assert.ElementsMatch(t, declared, tested, "each intent of the file is tested once")
}
