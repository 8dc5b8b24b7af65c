package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// WS-111, WS-200: after one file at depth 2 changes, one file frame and three
// directory frames are made again, and nothing the second time.
func TestRegenerationThroughThePlugin(t *testing.T) {
	b := start(t, map[string]string{"a/b/x.txt": "one\n", "a/b/y.txt": "two\n", "c/z.txt": "three\n"})
	b.call("workspace/scan", `{}`)
	made := b.call("context/generate", `{:path "." :recursive? true :frame/type "digest"}`)
	assert.Equal(t, "{:directory 4 :failed 0 :file 3 :reused 0 :skipped 0}", made.Key("counts").String(), made)
	b.write(map[string]string{"a/b/x.txt": "changed\n"})
	b.call("workspace/scan", `{}`)
	assert.Equal(t, ":stale", b.call("context/get-head", `{:path "." :frame/type "digest"}`).Key("state").String())
	again := b.call("context/regenerate", `{:path "." :recursive? true}`)
	assert.Equal(t, "{:directory 3 :failed 0 :file 1 :reused 0 :skipped 0}", again.Key("counts").String(), again)
	assert.Equal(t, "0", b.call("context/regenerate", `{:path "." :recursive? true}`).Key("counts").Key("directory").String())
	assert.Equal(t, "1", b.call("context/invalidate", `{:path "a" :frame/types ["digest"]}`).Key("invalidated").String())
	assert.Equal(t, "0", b.call("context/invalidate", `{:path "a" :frame/types ["digest"]}`).Key("invalidated").String())
	assert.Equal(t, ":invalid", b.call("context/get-head", `{:path "a" :frame/type "digest"}`).Key("state").String())
	built := b.call("context/synthesize", `{:path "a" :frame/type "digest" :policy {:kind :concatenate} :children :build}`)
	assert.False(t, built.Key("frame/id").IsNil())
}

// WS-140, WS-142, WS-146: a model is called through the host; its text is stored
// with what the host says of it.
func TestGenerateThroughTheHost(t *testing.T) {
	b := start(t, map[string]string{"a.txt": "alpha\n"}, func(cfg map[string]any) {
		cfg["agent"] = edn.MustRead(`{"docs" {:role "writer" :model "ollama/voice"
			:prompts {:system "Be brief." :file "Describe {path}: {content}" :directory "Combine: {frames}"}}}`)
	})
	calls := 0
	b.host.Answer("context/summarize", func(_ context.Context, c wire.Call, _ *wire.Emitter) (edn.Value, error) {
		request := c.Request
		calls++
		assert.Equal(t, ":context/summarize", request.Key("task").Key("intent").String())
		assert.Equal(t, ":ollama/voice", request.Key("task").Key("cap/id").String())
		assert.Contains(t, request.Key("input").Key("text").String(), "alpha")
		return edn.MustRead(`{:result {:type :value :out {:text "A greeting."} :usage {:tokens-in 9 :tokens-out 3}}
			:invoke/meta {:cap/id :ollama/voice :provider {:name "ollama" :model "llama3.1"} :finish :stop}}`), nil
	})
	b.call("workspace/scan", `{}`)
	made := b.call("context/generate", `{:agent/id "docs" :path "a.txt" :frame/type "summary"}`)
	assert.Equal(t, ":ollama/voice", made.Key("attribution").Key("cap/id").String(), made)
	node := b.call("context/get-node", `{:path "a.txt"}`)
	first, _ := node.Key("frames").Nth(0)
	assert.Equal(t, `"A greeting."`, first.Key("content").String())
	assert.True(t, b.call("context/generate", `{:agent/id "docs" :path "a.txt" :frame/type "summary"}`).Key("frame/existing?").Truthy())
	assert.Equal(t, 1, calls, "WS-143: equal inputs make no call")
}

// With :force? the key of the request fixes the sample: a second attempt at one call
// gives the frame of the first, and another call the next sample.
func TestForcedOnceThroughTheHost(t *testing.T) {
	b := scannedBench(t, map[string]string{"a.txt": "alpha\n"})
	calls := 0
	b.host.Answer("context/summarize", func(context.Context, wire.Call, *wire.Emitter) (edn.Value, error) {
		calls++
		return edn.MustRead(fmt.Sprintf(`{:result {:type :value :out {:text "text %d"}}}`, calls)), nil
	})
	forced := func(key string) string {
		attempt := as("ann")
		attempt.EffectKey = key
		out, err := b.try("context/generate", `{:path "a.txt" :frame/type "s" :intent :context/summarize :force? true}`, attempt)
		require.Nil(t, err)
		return out.Key("frame/id").String()
	}
	one := forced("key-1")
	assert.Equal(t, one, forced("key-1"))
	assert.Equal(t, 1, calls)
	assert.NotEqual(t, one, forced("key-2"))
	assert.Equal(t, 2, calls)
	twice := as("ann")
	twice.EffectKey = "key-3"
	item := `{:intent :context/generate :input {:path "a.txt" :frame/type "s" :intent :context/summarize :force? true}}`
	_, err := b.try("context/batch", `{:concurrency 1 :items [`+item+item+`]}`, twice)
	require.Nil(t, err)
	assert.Equal(t, 4, calls, "the items of a batch are requests of their own")
	b.fails("frame/metadata-policy", "context/put-frame", `{:path "a.txt" :frame/type "s" :content "x" :meta {:effect/key "key-1"}}`)
}

// WS-095, WS-172: a policy that says it is deterministic and is not is found when its
// frames are made again on request.
func TestValidateRunsRecipesAgain(t *testing.T) {
	b := start(t, map[string]string{"d/a.txt": "alpha\n"})
	calls := 0
	b.host.Answer("team/merge", func(context.Context, wire.Call, *wire.Emitter) (edn.Value, error) {
		calls++
		return edn.MustRead(fmt.Sprintf(`{:result {:type :value :out {:text "text %d"}}}`, calls)), nil
	})
	b.call("workspace/scan", `{}`)
	b.call("context/put-frame", `{:path "d/a.txt" :frame/type "s" :content "x"}`)
	b.call("context/synthesize", `{:path "d" :frame/type "s" :policy {:kind :custom :intent :team/merge :deterministic? true}}`)
	assert.Equal(t, "true", b.call("workspace/validate", `{}`).Key("valid?").String())
	assert.Equal(t, 1, calls)
	found := b.call("workspace/validate", `{:rerun? true}`)
	assert.Equal(t, "false", found.Key("valid?").String())
	first, _ := found.Key("errors").Nth(0)
	assert.Equal(t, `[:synthesis/nondeterministic "d"]`, edn.Vector(first.Key("code"), first.Key("path")).String(), found)
	assert.Equal(t, 2, calls)
}

// WS-148: what the host answers becomes an error of the provider, with the error
// of the host as its cause, and nothing is stored.
func TestErrorsOfModels(t *testing.T) {
	for _, c := range []struct{ answer, failure, want string }{
		{failure: "unsupported/intent", want: "provider/not-configured"},
		{failure: "cap/not-found", want: "provider/not-configured"},
		{failure: "runtime/crashed", want: "provider/request-failed"},
		{failure: "eval/must-failed", want: "provider/error"},
		{answer: `{:result {:type :value :out {:text "  "}}}`, want: "generate/empty"},
		{answer: `{:result {:type :value :out {:words 1}}}`, want: "provider/error"},
	} {
		t.Run(strings.ReplaceAll(c.failure+c.want, "/", "-"), func(t *testing.T) {
			b := start(t, map[string]string{"a.txt": "alpha\n"})
			b.host.Answer("context/summarize", func(context.Context, wire.Call, *wire.Emitter) (edn.Value, error) {
				if c.failure != "" {
					return edn.Nil(), contract.Errorf(c.failure, "no")
				}
				return edn.MustRead(c.answer), nil
			})
			b.call("workspace/scan", `{}`)
			err := b.failure(c.want, "context/generate", `{:path "a.txt" :frame/type "s" :intent :context/summarize}`)
			if c.failure != "" {
				require.NotNil(t, err.Cause)
				assert.Equal(t, c.failure, err.Cause.Type)
			}
			assert.Zero(t, b.call("context/list-frames", `{:path "a.txt"}`).Key("frames").Len())
		})
	}
}
