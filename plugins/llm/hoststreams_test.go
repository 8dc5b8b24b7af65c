package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/provider/wiretest"
	"github.com/fermenthq/ferment/sdk/edn"
	sdktext "github.com/fermenthq/ferment/sdk/text"
)

// opensAtOnce are the errors that open the breaker of a model at once (LLM-030). Their
// faults are rows of TestFaultWallThroughTheHost, where each has a model of its own.
var opensAtOnce = []string{"provider/quota-exhausted", "provider/model-not-found", "provider/auth-failed"}

// newStreamHost starts the host with a model of each dialect, a breaker that never
// opens, and a spare candidate.
func newStreamHost(t testing.TB) *hostWall {
	t.Helper()
	w := &hostWall{servers: map[string]*wiretest.Server{}}
	var plugins []string
	for dialect, provider := range providers {
		server := wiretest.Serve(t)
		server.Beside(counterOf(t, "anthropic"), counterOf(t, "llama-server"))
		w.servers[provider] = server
		voice := []string{"voice"}
		plugins = append(plugins, accountBlock(provider, provider, server.URL, voice, withKey, presetOf(dialect)))
	}
	bin := programs(t)
	const retry = "retry { fallback = 1 }"
	const breaker = "\n  breaker {\n    window      = 10000\n    min_samples = 10000\n  }"
	config := strings.Replace(wallConfig(bin, plugins...), retry, retry+breaker, 1)
	w.daemon = daemonOf(t, bin, config, map[string]string{"spare.edn": spareScript()}, "WALL_KEY="+canary)
	return w
}

// LLM-013 to LLM-015, LLM-020, LLM-055: each stream of a failing server through the real
// host, as a value and as a stream that is shown from the first token on. A client gets
// the intended text, that of the spare candidate, or an error; the ledger has the tokens
// that the server states and their price. The faults that need a clock are left out.
func TestStreamWallThroughTheHost(t *testing.T) {
	w := newStreamHost(t)
	for dialect, provider := range providers {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			played, exact := 0, 0
			for _, f := range faultsOf(dialect) {
				timed := strings.Contains(f.says, "later") || strings.HasSuffix(f.says, "stall")
				if timed || slices.Contains(opensAtOnce, f.want) {
					continue
				}
				played++
				for _, streamed := range []bool{false, true} {
					if w.stream(t, f, talks()[dialect], provider, streamed) {
						exact++
					}
				}
			}
			assert.GreaterOrEqual(t, played, 140, dialect)
			assert.GreaterOrEqual(t, exact, 40, "%s: answers with stated tokens", dialect)
		})
	}
}

// stream plays one fault. It returns whether the server stated the usage.
func (w *hostWall) stream(t *testing.T, f streamFault, k talk, provider string, streamed bool) bool {
	about := fmt.Sprintf("%s, streamed: %t: %s", provider, streamed, f.name)
	server, model := w.servers[provider], provider+"/voice"
	asked := len(server.Requests())
	tr, _ := k.steps(f.says)
	server.Then(tr)
	intent := map[bool]string{true: "wall/first-token", false: "wall/plain"}[streamed]
	body := fmt.Sprintf(`{:proto 1 :trace {:id "streams"} :debug/transcript? true
		:task {:intent :%s :dispatch {:policy :declared :candidates [:%s :spare/text]}} :input %s}`, intent, model, hello)
	h := w.act(t.Context(), body, streamed)
	require.Len(t, server.Requests(), asked+1, "%s: one request", about)
	first, _ := h.response.Key("transcript").Nth(0)
	failed := first.Key("error").Key("type")
	said, answered := h.response.Key("result").Key("out").Key("text").AsString()
	switch meant := sdktext.WithoutControls(cmp.Or(f.meant, "Hello world.")); { // as the host does
	case f.want == "":
		assert.True(t, failed.IsNil(), "%s: %s", about, failed)
		assert.Equal(t, meant, said, about)
	case !assert.Equal(t, ":"+f.want, failed.String(), "%s: %s", about, h.raw):
	case answered:
		assert.Equal(t, spareText, said, about)
	default:
		stops := first.Key("error").Key("class").String() == ":stop"
		assert.True(t, streamed || stops, "%s: %s", about, h.raw)
		assert.False(t, h.response.Key("error").IsNil(), "%s: %s", about, h.raw)
	}
	if streamed && answered {
		assert.Equal(t, said, h.text, "%s: what was shown is the answer", about)
	}
	paid := h.response.Key("usage").Key("by-capability").Key(model)
	exact := paid.Key("tokens-mark").String() == ":exact" && paid.Key("tokens-out").String() != "0"
	if exact {
		seen := edn.Vector(paid.Key("tokens-in"), paid.Key("tokens-out"), paid.Key("cost-usd"), paid.Key("cost-mark"))
		assert.Equal(t, "[9 3 0.000015M :exact]", seen.String(), about)
	}
	return exact
}
