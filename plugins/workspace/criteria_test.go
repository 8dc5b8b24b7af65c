package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// The tests of this file are the criteria of the design's components, through a
// real process; their names are the words of the criteria.

// state is everything that a writing would change.
func (b *bench) state() string {
	s := b.call("workspace/status", `{}`)
	return s.Key("seq").String() + s.Key("state-root").String()
}

func (b *bench) put(path, kind, text string) edn.Value {
	return b.call("context/put-frame", fmt.Sprintf(`{:path %q :frame/type %q :content %q}`, path, kind, text))
}

func scannedBench(t *testing.T, files map[string]string, change ...func(map[string]any)) *bench {
	b := start(t, files, change...)
	b.call("workspace/scan", `{}`)
	return b
}

var fourFiles = map[string]string{"a/x.txt": "one\n", "a/y.txt": "two\n", "b/z.txt": "three\n", "top.txt": "four\n"}

func TestReadWriteModel(t *testing.T) {
	b := scannedBench(t, fourFiles)
	t.Run("writer agents cannot overwrite frames", func(t *testing.T) {
		put := b.put("top.txt", "note", "first")
		b.fails("frame/immutable", "context/put-frame", `{:path "top.txt" :frame/type "note" :content "other" :frame/id `+put.Key("frame/id").String()+`}`)
	})
	t.Run("reader agents never trigger writes", func(t *testing.T) {
		before := b.state()
		for _, call := range []string{"context/put-frame", "context/synthesize", "context/regenerate", "context/invalidate", "context/generate"} {
			b.fails("agent/role-denied", call, `{:agent/id "reader" :path "."`+inputOf(call))
		}
		b.call("context/get-node", `{:agent/id "reader" :path "."}`)
		assert.Equal(t, before, b.state())
	})
	t.Run("agent attribution preserved in frame ids", func(t *testing.T) {
		one := b.call("context/put-frame", `{:agent/id "writer" :path "a" :frame/type "n" :content "same"}`)
		two := b.call("context/put-frame", `{:agent/id "synthesis" :path "a" :frame/type "n" :content "same"}`)
		assert.NotEqual(t, one.Key("frame/id").String(), two.Key("frame/id").String())
	})
	t.Run("concurrent agents do not corrupt state", func(t *testing.T) {
		var all sync.WaitGroup
		var existing atomic.Int64
		for i := range 40 {
			all.Go(func() {
				out, err := b.try("context/put-frame", fmt.Sprintf(`{:agent/id %q :path "b" :frame/type "race" :content "%d"}`,
					[]string{"writer", "synthesis"}[i%2], i/4))
				if assert.Nil(t, err) && out.Key("frame/existing?").Truthy() {
					existing.Add(1)
				}
			})
		}
		all.Wait()
		assert.Equal(t, int64(20), existing.Load(), "40 puts of 10 texts by two agents")
		assert.Equal(t, 20, b.call("context/list-frames", `{:path "b" :frame/type "race"}`).Key("frames").Len())
		valid := b.call("workspace/validate", `{}`)
		assert.True(t, valid.Key("valid?").Truthy(), valid)
	})
	t.Run("agent identity verified on all write operations", func(t *testing.T) {
		for _, call := range []string{"context/put-frame", "context/synthesize", "context/regenerate", "context/invalidate", "context/generate"} {
			b.fails("agent/unknown", call, `{:agent/id "ghost" :path "."`+inputOf(call))
		}
	})
}

// inputOf is the rest of an input that an intent would accept.
func inputOf(call string) string {
	switch call {
	case "context/put-frame":
		return ` :frame/type "x" :content "c"}`
	case "context/synthesize", "context/generate":
		return ` :frame/type "x"}`
	}
	return `}`
}

func TestContextAPIs(t *testing.T) {
	b := scannedBench(t, fourFiles)
	t.Run("same request yields same frame set", func(t *testing.T) {
		for i := range 5 {
			b.put("a", fmt.Sprint("t", i), "text")
		}
		first := b.call("context/get-node", `{:path "a"}`)
		assert.Equal(t, first.String(), b.call("context/get-node", `{:path "a"}`).String())
		b.put("a", "later", "text")
		asOf := b.call("context/get-node", `{:path "a" :as-of `+first.Key("seq").String()+`}`)
		assert.Equal(t, first.String(), asOf.String(), "WS-048")
	})
	t.Run("frame append updates heads correctly", func(t *testing.T) {
		one, two := b.put("b", "note", "one"), b.put("b", "note", "two")
		assert.Equal(t, one.Key("frame/id").String(), two.Key("head/previous").String())
		assert.Equal(t, two.Key("frame/id").String(), b.call("context/get-head", `{:path "b" :frame/type "note"}`).Key("frame/id").String())
		b.fails("head/conflict", "context/put-frame", `{:path "b" :frame/type "note" :content "three" :expect/head `+one.Key("frame/id").String()+`}`)
	})
	t.Run("API calls do not trigger synthesis implicitly", func(t *testing.T) {
		b.put("a/x.txt", "digest", "x")
		b.call("workspace/scan", `{}`)
		b.call("context/get-node", `{:path "a"}`)
		b.fails("frame/no-head", "context/get-head", `{:path "a" :frame/type "digest"}`)
	})
	t.Run("error handling is deterministic", func(t *testing.T) {
		one := b.failure("path/not-in-tree", "context/get-node", `{:path "nope"}`)
		two := b.failure("path/not-in-tree", "context/get-node", `{:path "nope"}`)
		assert.Equal(t, one.Value().String(), two.Value().String())
	})
	t.Run("concurrent requests handled safely", func(t *testing.T) {
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				if i%3 == 0 {
					b.put("top.txt", "many", fmt.Sprint(i))
					return
				}
				_, err := b.try("context/get-node", `{:path "top.txt" :view "history"}`)
				assert.Nil(t, err)
			})
		}
		all.Wait()
	})
	t.Run("invalid node id returns clear error", func(t *testing.T) {
		err := b.failure("input/invalid", "context/get-node", `{:node/id "zzz"}`)
		assert.NotEmpty(t, err.Details.Key("reason").String())
	})
}

func TestBranchSynthesis(t *testing.T) {
	b := scannedBench(t, fourFiles)
	const digest = `{:path "a" :frame/type "digest"}`
	b.put("a/x.txt", "digest", "text of x")
	b.put("a/y.txt", "digest", "text of y")
	first := b.call("context/synthesize", digest)
	t.Run("same child frames, same branch frame", func(t *testing.T) {
		again := b.call("context/synthesize", digest)
		assert.Equal(t, first.Key("frame/id").String(), again.Key("frame/id").String())
		assert.True(t, again.Key("frame/existing?").Truthy())
	})
	t.Run("no synthesis without declared trigger", func(t *testing.T) {
		b.call("workspace/scan", `{}`)
		b.fails("frame/no-head", "context/get-head", `{:path "." :frame/type "digest"}`)
	})
	t.Run("synthesis limited to subtree scope", func(t *testing.T) {
		b.put("b/z.txt", "digest", "text of z")
		node := b.call("context/get-node", `{:path "a" :frame/type "digest"}`)
		one, _ := node.Key("frames").Nth(0)
		text, _ := one.Key("content").AsString()
		assert.NotContains(t, text, "text of z")
		assert.Equal(t, "2", first.Key("inputs").String())
	})
	t.Run("synthesis preserves frame ordering", func(t *testing.T) {
		other := scannedBench(t, fourFiles)
		other.put("a/y.txt", "digest", "text of y")
		other.put("a/x.txt", "digest", "text of x")
		assert.Equal(t, first.Key("frame/id").String(), other.call("context/synthesize", digest).Key("frame/id").String(), "put in another order")
	})
	t.Run("child change invalidates parent basis", func(t *testing.T) {
		b.put("a/x.txt", "digest", "new text of x")
		assert.Equal(t, ":stale", b.call("context/get-head", digest).Key("state").String())
		changed := b.call("context/synthesize", digest)
		assert.NotEqual(t, first.Key("basis/id").String(), changed.Key("basis/id").String())
	})
	t.Run("empty directory produces stable empty frame", func(t *testing.T) {
		one := b.call("context/synthesize", `{:path "b" :frame/type "none"}`)
		two := b.call("context/synthesize", `{:path "b" :frame/type "none"}`)
		assert.Equal(t, one.Key("frame/id").String(), two.Key("frame/id").String())
		assert.Equal(t, "0", one.Key("inputs").String())
	})
}

func TestIncrementalRegeneration(t *testing.T) {
	b := scannedBench(t, fourFiles)
	b.call("context/generate", `{:path "." :recursive? true :frame/type "digest"}`)
	old := b.call("context/get-head", `{:path "a" :frame/type "digest"}`).Key("frame/id").String()
	untouched := b.call("context/get-head", `{:path "b" :frame/type "digest"}`).Key("commit").String()
	b.write(map[string]string{"a/x.txt": "changed\n"})
	b.call("workspace/scan", `{}`)
	t.Run("no cascading beyond declared scope", func(t *testing.T) {
		out := b.call("context/regenerate", `{:path "a" :recursive? true}`)
		assert.Equal(t, "1 1", out.Key("counts").Key("file").String()+" "+out.Key("counts").Key("directory").String())
		assert.Equal(t, ":stale", b.call("context/get-head", `{:path "." :frame/type "digest"}`).Key("state").String())
	})
	t.Run("file change triggers minimal regeneration", func(t *testing.T) {
		out := b.call("context/regenerate", `{:path "." :recursive? true}`)
		assert.Equal(t, "0 1", out.Key("counts").Key("file").String()+" "+out.Key("counts").Key("directory").String(), "only the root is left")
	})
	t.Run("unchanged nodes are not touched", func(t *testing.T) {
		assert.Equal(t, untouched, b.call("context/get-head", `{:path "b" :frame/type "digest"}`).Key("commit").String())
	})
	t.Run("regenerated frame ids differ predictably", func(t *testing.T) {
		now := b.call("context/get-head", `{:path "a" :frame/type "digest"}`).Key("frame/id").String()
		assert.NotEqual(t, old, now)
		other := scannedBench(t, map[string]string{"a/x.txt": "changed\n", "a/y.txt": "two\n", "b/z.txt": "three\n", "top.txt": "four\n"})
		other.call("context/generate", `{:path "." :recursive? true :frame/type "digest"}`)
		assert.Equal(t, now, other.call("context/get-head", `{:path "a" :frame/type "digest"}`).Key("frame/id").String(), "equal on every machine")
	})
	t.Run("old frames remain accessible", func(t *testing.T) {
		assert.Contains(t, b.call("context/list-frames", `{:path "a"}`).String(), strings.Trim(old, `"`))
	})
	t.Run("regeneration is idempotent", func(t *testing.T) {
		before := b.state()
		b.call("context/regenerate", `{:path "." :recursive? true}`)
		assert.Equal(t, before, b.state())
	})
	t.Run("concurrent regeneration handled safely", func(t *testing.T) {
		b.write(map[string]string{"a/y.txt": "changed too\n"})
		b.call("workspace/scan", `{}`)
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				_, err := b.try("context/regenerate", `{:path "." :recursive? true}`)
				assert.Nil(t, err)
			})
		}
		all.Wait()
		valid := b.call("workspace/validate", `{}`)
		assert.True(t, valid.Key("valid?").Truthy(), valid)
		assert.Equal(t, "0", b.call("context/regenerate", `{:path "." :recursive? true}`).Key("counts").Key("directory").String())
	})
}

func TestMultiFrameComposition(t *testing.T) {
	b := scannedBench(t, fourFiles)
	for i := range 10 {
		b.put("a/x.txt", fmt.Sprintf("t%d", i), fmt.Sprintf("word%d flag", i))
	}
	b.put("a", "summary", "flag parsing of a")
	const all = `{:path "a/x.txt" :sources [:current :parent :siblings] :max-frames 4 :ordering `
	t.Run("composition never exceeds max frames", func(t *testing.T) {
		out := b.call("context/compose", all+`:recency}`)
		assert.Equal(t, 4, out.Key("frames").Len())
		assert.Equal(t, "7", out.Key("omitted").String())
	})
	t.Run("ordering stable across runs", func(t *testing.T) {
		one := b.call("context/compose", all+`:relevance :query "flag parsing"}`)
		assert.Equal(t, one.String(), b.call("context/compose", all+`:relevance :query "flag parsing"}`).String())
		first, _ := one.Key("frames").Nth(0)
		assert.Equal(t, `"summary"`, first.Key("frame/type").String())
	})
	t.Run("missing frames handled gracefully", func(t *testing.T) {
		out := b.call("context/compose", `{:path "a/x.txt" :sources [:current [:related ["b/z.txt" "nope"]]]}`)
		assert.Equal(t, 10, out.Key("frames").Len())
		assert.NotZero(t, out.Key("skipped").Len())
	})
	t.Run("no writes during composition", func(t *testing.T) {
		before := b.state()
		b.call("context/compose", all+`:recency}`)
		assert.Equal(t, before, b.state())
	})
	t.Run("empty composition returns empty result", func(t *testing.T) {
		assert.Zero(t, b.call("context/compose", `{:path "b/z.txt"}`).Key("frames").Len())
	})
	t.Run("policy changes produce different results", func(t *testing.T) {
		newest := b.call("context/compose", all+`:recency}`).Key("frames")
		byType := b.call("context/compose", all+`[:type-priority ["t3" "t1"]]}`).Key("frames")
		assert.NotEqual(t, newest.String(), byType.String())
	})
}

func TestModelProviders(t *testing.T) {
	prompts := ` :prompts {:system "s" :file "Describe {path}: {content}" :directory "{frames}"}`
	b := scannedBench(t, fourFiles, func(cfg map[string]any) {
		cfg["agent"] = edn.MustRead(`{"one" {:role "writer" :model "ollama/voice"` + prompts + `} "two" {:role "writer" :model "openai/voice"` + prompts + `}}`)
	})
	var down atomic.Bool
	b.host.Answer("context/summarize", func(_ context.Context, c wire.Call, out *wire.Emitter) (edn.Value, error) {
		if down.Load() {
			return edn.Nil(), contract.Errorf("runtime/crashed", "the server is gone")
		}
		model := c.Request.Key("task").Key("cap/id")
		if c.Request.Key("stream?").Truthy() {
			_ = out.Delta(edn.MustRead(`{:kind :text :text "by "}`))
		}
		name, _ := model.AsKeyword()
		return edn.MustRead(fmt.Sprintf(`{:result {:type :value :out {:text "by %s"} :usage {:tokens-in 5 :tokens-out 2}}
			:invoke/meta {:cap/id %s :provider {:name %q :model "m"} :finish :stop}}`, name, model, strings.Split(name, "/")[0])), nil
	})
	generate := func(agent, path string, more ...string) edn.Value {
		return b.call("context/generate", fmt.Sprintf(`{:agent/id %q :path %q :frame/type "s" %s}`, agent, path, strings.Join(more, " ")))
	}
	t.Run("multiple providers can be used simultaneously", func(t *testing.T) {
		var all sync.WaitGroup
		for agent, want := range map[string]string{"one": ":ollama/voice", "two": ":openai/voice"} {
			all.Go(func() {
				assert.Equal(t, want, generate(agent, "top.txt").Key("attribution").Key("cap/id").String())
			})
		}
		all.Wait()
	})
	t.Run("provider errors handled gracefully", func(t *testing.T) {
		down.Store(true)
		defer down.Store(false)
		before := b.state()
		err := b.failure("provider/request-failed", "context/generate", `{:agent/id "one" :path "b/z.txt" :frame/type "s"}`)
		assert.Equal(t, "runtime/crashed", err.Cause.Type)
		assert.Equal(t, before, b.state())
	})
	t.Run("agent identity preserved regardless of provider", func(t *testing.T) {
		assert.Contains(t, b.call("context/list-frames", `{:path "top.txt"}`).String(), `:agent/id "one"`)
	})
	t.Run("provider switching works correctly", func(t *testing.T) {
		one := generate("one", "a/x.txt")
		same := generate("one", "a/x.txt", `:model "openai/voice"`)
		assert.Equal(t, one.Key("frame/id").String(), same.Key("frame/id").String(), "the model is no part of the id")
		other := generate("one", "a/x.txt", `:model "openai/voice" :if-model-changed? true`)
		assert.Equal(t, ":openai/voice", other.Key("attribution").Key("cap/id").String())
	})
	t.Run("streaming support works for supported providers", func(t *testing.T) {
		var texts []string
		response, err := b.p.Do(t.Context(), callOf("context/generate", `{:agent/id "one" :path "a/y.txt" :frame/type "s"}`, func(e wire.Event) {
			if s, ok := e.Value.Key("text").AsString(); ok && e.Kind == wire.Delta {
				texts = append(texts, s)
			}
		}))
		require.NoError(t, err)
		assert.Equal(t, []string{"by "}, texts)
		assert.False(t, response.Key("result").Key("out").Key("frame/id").IsNil())
	})
	t.Run("provider configuration validated on agent creation", func(t *testing.T) {
		err := checkSettings(settings{AllowedRoots: []string{"/"}, Agents: map[string]agentBlock{"x": {Role: "writer", Model: "ollama/voice"}}})
		assert.ErrorContains(t, err, "prompt")
	})
}

func TestTooling(t *testing.T) {
	t.Run("re-running tools yields same state", func(t *testing.T) {
		b := scannedBench(t, fourFiles)
		b.put("top.txt", "note", "x")
		before := b.state()
		b.put("top.txt", "note", "x")
		b.call("workspace/scan", `{:force? true}`)
		assert.Equal(t, before, b.state())
	})
	t.Run("tool failures do not corrupt storage", func(t *testing.T) {
		b := scannedBench(t, fourFiles)
		before := b.state()
		b.fails("path/not-in-tree", "context/batch", `{:atomic? true :items [
			{:intent :context/put-frame :input {:path "top.txt" :frame/type "n" :content "1"}}
			{:intent :context/put-frame :input {:path "none" :frame/type "n" :content "2"}}]}`)
		assert.Equal(t, before, b.state())
	})
	t.Run("workspace operations are isolated", func(t *testing.T) {
		b := start(t, map[string]string{"one/a.txt": "1", "two/b.txt": "2"})
		for _, name := range []string{"one", "two"} {
			b.call("workspace/scan", `{:workspace "`+b.root+`/`+name+`"}`)
		}
		b.call("context/put-frame", `{:workspace "`+b.root+`/one" :path "a.txt" :frame/type "n" :content "secret"}`)
		two := b.call("workspace/status", `{:workspace "`+b.root+`/two"}`)
		assert.Equal(t, "0", two.Key("frames").String())
		b.fails("path/not-in-tree", "context/get-node", `{:workspace "`+b.root+`/two" :path "a.txt"}`)
		byID := b.call("workspace/status", `{:workspace `+two.Key("workspace/id").String()+`}`)
		assert.Equal(t, two.Key("state-root").String(), byID.Key("state-root").String())
	})
	t.Run("error messages are clear and actionable", func(t *testing.T) {
		b := start(t, fourFiles)
		err := b.failure("workspace/not-found", "workspace/status", `{}`)
		assert.Contains(t, err.Hint, "ferment workspace")
	})
}
