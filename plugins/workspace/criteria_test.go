package main

import (
	"context"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
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

// The tests of this file are the 43 criteria of the design's seven components, through a
// real process; their names are the words of the criteria. Each has its own workspace, so
// they run in any order and alone.

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
	t.Run("writer agents cannot overwrite frames", func(t *testing.T) {
		b := scannedBench(t, fourFiles)
		put := b.put("top.txt", "note", "first")
		b.fails("frame/immutable", "context/put-frame", `{:path "top.txt" :frame/type "note" :content "other" :frame/id `+put.Key("frame/id").String()+`}`)
	})
	t.Run("reader agents never trigger writes", func(t *testing.T) {
		b := scannedBench(t, fourFiles)
		before := b.state()
		for _, call := range []string{"context/put-frame", "context/synthesize", "context/regenerate", "context/invalidate", "context/generate"} {
			b.fails("agent/role-denied", call, `{:agent/id "reader" :path "."`+inputOf(call))
		}
		b.call("context/get-node", `{:agent/id "reader" :path "."}`)
		assert.Equal(t, before, b.state())
	})
	t.Run("agent attribution preserved in frame ids", func(t *testing.T) {
		b := scannedBench(t, fourFiles)
		one := b.call("context/put-frame", `{:agent/id "writer" :path "a" :frame/type "n" :content "same"}`)
		two := b.call("context/put-frame", `{:agent/id "synthesis" :path "a" :frame/type "n" :content "same"}`)
		assert.NotEqual(t, one.Key("frame/id").String(), two.Key("frame/id").String())
	})
	t.Run("concurrent agents do not corrupt state", func(t *testing.T) {
		b := scannedBench(t, fourFiles)
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
		b := scannedBench(t, fourFiles)
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
	t.Run("same request yields same frame set", func(t *testing.T) {
		b := scannedBench(t, fourFiles)
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
		b := scannedBench(t, fourFiles)
		one, two := b.put("b", "note", "one"), b.put("b", "note", "two")
		assert.Equal(t, one.Key("frame/id").String(), two.Key("head/previous").String())
		assert.Equal(t, two.Key("frame/id").String(), b.call("context/get-head", `{:path "b" :frame/type "note"}`).Key("frame/id").String())
		b.fails("head/conflict", "context/put-frame", `{:path "b" :frame/type "note" :content "three" :expect/head `+one.Key("frame/id").String()+`}`)
	})
	t.Run("API calls do not trigger synthesis implicitly", func(t *testing.T) {
		b := scannedBench(t, fourFiles)
		b.put("a/x.txt", "digest", "x")
		b.call("workspace/scan", `{}`)
		b.call("context/get-node", `{:path "a"}`)
		b.fails("frame/no-head", "context/get-head", `{:path "a" :frame/type "digest"}`)
	})
	t.Run("error handling is deterministic", func(t *testing.T) {
		b := scannedBench(t, fourFiles)
		one := b.failure("path/not-in-tree", "context/get-node", `{:path "nope"}`)
		two := b.failure("path/not-in-tree", "context/get-node", `{:path "nope"}`)
		assert.Equal(t, one.Value().String(), two.Value().String())
	})
	t.Run("concurrent requests handled safely", func(t *testing.T) {
		b := scannedBench(t, fourFiles)
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				if i%3 == 0 {
					b.put("top.txt", "many", fmt.Sprint(i))
					return
				}
				out, err := b.try("context/get-node", `{:path "top.txt" :view "history"}`)
				assert.Nil(t, err)
				assert.Equal(t, out.Key("frame/count").String(), fmt.Sprint(out.Key("frames").Len()), "one state")
			})
		}
		all.Wait()
		assert.Equal(t, 10, b.call("context/list-frames", `{:path "top.txt" :frame/type "many"}`).Key("frames").Len())
		valid := b.call("workspace/validate", `{}`)
		assert.True(t, valid.Key("valid?").Truthy(), valid)
	})
	t.Run("invalid node id returns clear error", func(t *testing.T) {
		b := scannedBench(t, fourFiles)
		err := b.failure("input/invalid", "context/get-node", `{:node/id "zzz"}`)
		assert.NotEmpty(t, err.Details.Key("reason").String())
	})
}

func TestBranchSynthesis(t *testing.T) {
	const digest = `{:path "a" :frame/type "digest"}`
	synthesized := func(t *testing.T) (b *bench, first edn.Value) {
		b = scannedBench(t, fourFiles)
		for _, path := range []string{"a/x.txt", "a/y.txt", "b/z.txt", "top.txt"} {
			b.put(path, "digest", "text of "+path)
		}
		return b, b.call("context/synthesize", digest)
	}
	t.Run("same child frames, same branch frame", func(t *testing.T) {
		b, first := synthesized(t)
		again := b.call("context/synthesize", digest)
		assert.Equal(t, first.Key("frame/id").String(), again.Key("frame/id").String())
		assert.True(t, again.Key("frame/existing?").Truthy())
	})
	t.Run("no synthesis without declared trigger", func(t *testing.T) {
		b, _ := synthesized(t)
		b.call("workspace/scan", `{}`)
		b.fails("frame/no-head", "context/get-head", `{:path "." :frame/type "digest"}`)
	})
	t.Run("synthesis limited to subtree scope", func(t *testing.T) {
		b, first := synthesized(t)
		one, _ := b.call("context/get-node", digest).Key("frames").Nth(0)
		assert.Equal(t, `"text of a/x.txt\ntext of a/y.txt\n"`, one.Key("content").String())
		assert.Equal(t, "2", first.Key("inputs").String())
		for _, outside := range []string{"b", "."} {
			b.fails("frame/no-head", "context/get-head", `{:path "`+outside+`" :frame/type "digest"}`)
		}
	})
	t.Run("synthesis preserves frame ordering", func(t *testing.T) {
		_, first := synthesized(t)
		other := scannedBench(t, fourFiles)
		other.put("a/y.txt", "digest", "text of a/y.txt")
		other.put("a/x.txt", "digest", "text of a/x.txt")
		assert.Equal(t, first.Key("frame/id").String(), other.call("context/synthesize", digest).Key("frame/id").String(), "put in another order")
	})
	t.Run("child change invalidates parent basis", func(t *testing.T) {
		b, first := synthesized(t)
		b.put("a/x.txt", "digest", "new text of x")
		assert.Equal(t, ":stale", b.call("context/get-head", digest).Key("state").String())
		changed := b.call("context/synthesize", digest)
		assert.NotEqual(t, first.Key("basis/id").String(), changed.Key("basis/id").String())
	})
	t.Run("empty directory produces stable empty frame", func(t *testing.T) {
		b := scannedBench(t, fourFiles)
		one := b.call("context/synthesize", `{:path "b" :frame/type "none"}`)
		two := b.call("context/synthesize", `{:path "b" :frame/type "none"}`)
		assert.Equal(t, one.Key("frame/id").String(), two.Key("frame/id").String())
		assert.Equal(t, "0", one.Key("inputs").String())
	})
}

func TestIncrementalRegeneration(t *testing.T) {
	// changed is a workspace with a digest of every node, after a file changed.
	changed := func(t *testing.T) (b *bench) {
		b = scannedBench(t, fourFiles)
		b.call("context/generate", `{:path "." :recursive? true :frame/type "digest"}`)
		b.write(map[string]string{"a/x.txt": "changed\n"})
		b.call("workspace/scan", `{}`)
		return b
	}
	head := func(b *bench, path string) edn.Value {
		return b.call("context/get-head", `{:path "`+path+`" :frame/type "digest"}`)
	}
	regenerated := func(b *bench, path string) string {
		counts := b.call("context/regenerate", `{:path "`+path+`" :recursive? true}`).Key("counts")
		return counts.Key("file").String() + " " + counts.Key("directory").String()
	}
	t.Run("no cascading beyond declared scope", func(t *testing.T) {
		b := changed(t)
		root := head(b, ".").Key("frame/id").String()
		assert.Equal(t, "1 1", regenerated(b, "a"))
		assert.Equal(t, ":stale", head(b, ".").Key("state").String())
		assert.Equal(t, root, head(b, ".").Key("frame/id").String())
	})
	t.Run("file change triggers minimal regeneration", func(t *testing.T) {
		assert.Equal(t, "1 2", regenerated(changed(t), "."), "the file, its directory and the root")
	})
	t.Run("unchanged nodes are not touched", func(t *testing.T) {
		b := changed(t)
		paths := []string{"b", "b/z.txt", "a/y.txt", "top.txt"}
		var before []string
		for _, path := range paths {
			before = append(before, head(b, path).Key("commit").String())
		}
		assert.Equal(t, "1 2", regenerated(b, "."))
		for i, path := range paths {
			assert.Equal(t, before[i], head(b, path).Key("commit").String(), path)
		}
	})
	t.Run("regenerated frame ids differ predictably", func(t *testing.T) {
		b := changed(t)
		old := head(b, "a").Key("frame/id").String()
		assert.Equal(t, "1 2", regenerated(b, "."))
		now := head(b, "a").Key("frame/id").String()
		assert.NotEqual(t, old, now)
		other := scannedBench(t, map[string]string{"a/x.txt": "changed\n", "a/y.txt": "two\n", "b/z.txt": "three\n", "top.txt": "four\n"})
		other.call("context/generate", `{:path "." :recursive? true :frame/type "digest"}`)
		assert.Equal(t, now, head(other, "a").Key("frame/id").String(), "equal on every machine")
	})
	t.Run("old frames remain accessible", func(t *testing.T) {
		b := changed(t)
		old := head(b, "a").Key("frame/id").String()
		assert.Equal(t, "1 2", regenerated(b, "."))
		assert.Contains(t, b.call("context/list-frames", `{:path "a"}`).String(), old)
	})
	t.Run("regeneration is idempotent", func(t *testing.T) {
		b := changed(t)
		assert.Equal(t, "1 2", regenerated(b, "."))
		before := b.state()
		assert.Equal(t, "0 0", regenerated(b, "."))
		assert.Equal(t, before, b.state())
	})
	t.Run("concurrent regeneration handled safely", func(t *testing.T) {
		b := changed(t)
		var all sync.WaitGroup
		var made atomic.Int64
		for range 6 {
			all.Go(func() {
				out, err := b.try("context/regenerate", `{:path "." :recursive? true}`)
				assert.Nil(t, err)
				files, _ := out.Key("counts").Key("file").AsInt()
				made.Add(files)
			})
		}
		all.Wait()
		assert.Equal(t, int64(1), made.Load(), "one request makes the frame of the file")
		valid := b.call("workspace/validate", `{}`)
		assert.True(t, valid.Key("valid?").Truthy(), valid)
		assert.Equal(t, "0 0", regenerated(b, "."))
	})
}

func TestMultiFrameComposition(t *testing.T) {
	filled := func(t *testing.T) *bench {
		b := scannedBench(t, fourFiles)
		for i := range 10 {
			b.put("a/x.txt", fmt.Sprintf("t%d", i), fmt.Sprintf("word%d flag", i))
		}
		b.put("a", "summary", "flag parsing of a")
		return b
	}
	const all = `{:path "a/x.txt" :sources [:current :parent :siblings] :max-frames 4 :ordering `
	t.Run("composition never exceeds max frames", func(t *testing.T) {
		out := filled(t).call("context/compose", all+`:recency}`)
		assert.Equal(t, 4, out.Key("frames").Len())
		assert.Equal(t, "7", out.Key("omitted").String())
	})
	t.Run("ordering stable across runs", func(t *testing.T) {
		b := filled(t)
		one := b.call("context/compose", all+`:relevance :query "flag parsing"}`)
		assert.Equal(t, one.String(), b.call("context/compose", all+`:relevance :query "flag parsing"}`).String())
		first, _ := one.Key("frames").Nth(0)
		assert.Equal(t, `"summary"`, first.Key("frame/type").String())
	})
	t.Run("missing frames handled gracefully", func(t *testing.T) {
		out := filled(t).call("context/compose", `{:path "a/x.txt" :sources [:current [:related ["b/z.txt" "nope"]]]}`)
		assert.Equal(t, 10, out.Key("frames").Len())
		assert.NotZero(t, out.Key("skipped").Len())
	})
	t.Run("no writes during composition", func(t *testing.T) {
		b := filled(t)
		before := b.state()
		b.call("context/compose", all+`:recency}`)
		assert.Equal(t, before, b.state())
	})
	t.Run("empty composition returns empty result", func(t *testing.T) {
		assert.Zero(t, filled(t).call("context/compose", `{:path "b/z.txt"}`).Key("frames").Len())
	})
	t.Run("policy changes produce different results", func(t *testing.T) {
		b := filled(t)
		newest := b.call("context/compose", all+`:recency}`).Key("frames")
		byType := b.call("context/compose", all+`[:type-priority ["t3" "t1"]]}`).Key("frames")
		assert.NotEqual(t, newest.String(), byType.String())
	})
}

// provided is a workspace with two agents of two providers. The call of a provider that is
// down fails; calls are the requests that were sent, without the model that was asked for.
type provided struct {
	*bench
	down  atomic.Bool
	mu    sync.Mutex
	calls []string
}

func withProviders(t *testing.T) *provided {
	prompts := ` :prompts {:system "s" :file "Describe {path}: {content}" :directory "{frames}"}`
	p := &provided{bench: scannedBench(t, fourFiles, func(cfg map[string]any) {
		cfg["agent"] = edn.MustRead(`{"one" {:role "writer" :model "ollama/voice"` + prompts + `} "two" {:role "writer" :model "openai/voice"` + prompts + `}}`)
	})}
	p.host.Answer("context/summarize", func(_ context.Context, c wire.Call, out *wire.Emitter) (edn.Value, error) {
		if p.down.Load() {
			return edn.Nil(), contract.Errorf("runtime/crashed", "the server is gone")
		}
		model := c.Request.Key("task").Key("cap/id")
		p.mu.Lock()
		p.calls = append(p.calls, c.Request.Key("input").String())
		p.mu.Unlock()
		if c.Request.Key("stream?").Truthy() {
			_ = out.Delta(edn.MustRead(`{:kind :text :text "by "}`))
		}
		name, _ := model.AsKeyword()
		return edn.MustRead(fmt.Sprintf(`{:result {:type :value :out {:text "by %s"} :usage {:tokens-in 5 :tokens-out 2}}
			:invoke/meta {:cap/id %s :provider {:name %q :model "m"} :finish :stop}}`, name, model, strings.Split(name, "/")[0])), nil
	})
	return p
}

func (p *provided) generate(agent, path string, more ...string) edn.Value {
	return p.call("context/generate", fmt.Sprintf(`{:agent/id %q :path %q :frame/type "s" %s}`, agent, path, strings.Join(more, " ")))
}

func TestModelProviders(t *testing.T) {
	t.Run("multiple providers can be used simultaneously", func(t *testing.T) {
		p := withProviders(t)
		var all sync.WaitGroup
		for agent, want := range map[string]string{"one": ":ollama/voice", "two": ":openai/voice"} {
			all.Go(func() {
				assert.Equal(t, want, p.generate(agent, "top.txt").Key("attribution").Key("cap/id").String())
			})
		}
		all.Wait()
	})
	t.Run("provider errors handled gracefully", func(t *testing.T) {
		p := withProviders(t)
		p.down.Store(true)
		before := p.state()
		err := p.failure("provider/request-failed", "context/generate", `{:agent/id "one" :path "b/z.txt" :frame/type "s"}`)
		assert.Equal(t, "runtime/crashed", err.Cause.Type)
		assert.Equal(t, before, p.state())
	})
	t.Run("agent identity preserved regardless of provider", func(t *testing.T) {
		p := withProviders(t)
		p.generate("one", "top.txt")
		p.generate("one", "top.txt", `:model "openai/voice" :force? true`)
		p.generate("two", "top.txt")
		writers := map[string]int{}
		for f := range p.call("context/list-frames", `{:path "top.txt"}`).Key("frames").Elems() {
			name, _ := f.Key("agent/id").AsString()
			writers[name]++
		}
		assert.Equal(t, map[string]int{"one": 2, "two": 1}, writers)
	})
	t.Run("provider switching works correctly", func(t *testing.T) {
		p := withProviders(t)
		one := p.generate("one", "a/x.txt")
		same := p.generate("one", "a/x.txt", `:model "openai/voice"`)
		assert.Equal(t, one.Key("frame/id").String(), same.Key("frame/id").String(), "the model is no part of the id")
		other := p.generate("one", "a/x.txt", `:model "openai/voice" :if-model-changed? true`)
		assert.Equal(t, ":openai/voice", other.Key("attribution").Key("cap/id").String())
	})
	// The form on the wire is that of the model capabilities: their plugins have its tests.
	t.Run("local providers (Ollama, custom) work with OpenAI-compatible format", func(t *testing.T) {
		p := withProviders(t)
		for _, model := range []string{"ollama/voice", "openai/voice", "custom/voice"} {
			out := p.generate("one", "top.txt", `:force? true :model "`+model+`"`)
			assert.Equal(t, ":"+model, out.Key("attribution").Key("cap/id").String())
		}
		require.Len(t, p.calls, 3)
		assert.Contains(t, p.calls[0], "Describe top.txt")
		assert.Equal(t, []string{p.calls[0], p.calls[0]}, p.calls[1:], "each gets the same request")
	})
	t.Run("streaming support works for supported providers", func(t *testing.T) {
		p := withProviders(t)
		var texts []string
		response, err := p.p.Do(t.Context(), callOf("context/generate", `{:agent/id "one" :path "a/y.txt" :frame/type "s"}`, func(e wire.Event) {
			if s, ok := e.Value.Key("text").AsString(); ok && e.Kind == wire.Delta {
				texts = append(texts, s)
			}
		}))
		require.NoError(t, err)
		assert.Equal(t, []string{"by "}, texts)
		assert.False(t, response.Key("result").Key("out").Key("frame/id").IsNil())
	})
	// The host knows which models exist: it refuses an agent with another one.
	t.Run("provider configuration validated on agent creation", func(t *testing.T) {
		prompts := promptsBlock{System: "s", File: "f", Directory: "d"}
		for _, tc := range []struct {
			agent agentBlock
			lacks string
		}{
			{agentBlock{Role: "writer", Model: "ollama/voice", Prompts: prompts}, ""},
			{agentBlock{Role: "writer", Model: "ollama/voice"}, "prompt"},
			{agentBlock{Role: "writer", Model: "no model", Prompts: prompts}, "model"},
			{agentBlock{Role: "poet", Model: "ollama/voice", Prompts: prompts}, "role"},
		} {
			err := checkSettings(settings{AllowedRoots: []string{"/"}, Agents: map[string]agentBlock{"x": tc.agent}})
			if tc.lacks == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, tc.lacks)
			}
		}
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
		none := start(t, fourFiles).failure("workspace/not-found", "workspace/status", `{}`)
		assert.Contains(t, none.Hint, "ferment workspace")
		b := scannedBench(t, fourFiles)
		one := b.put("top.txt", "note", "one").Key("frame/id").String()
		b.put("top.txt", "note", "two")
		for _, tc := range []struct{ typ, intent, in, object string }{
			{"path/not-in-tree", "context/get-node", `{:path "nope"}`, "nope"},
			{"frame/no-head", "context/get-head", `{:path "b" :frame/type "note"}`, "b"},
			{"agent/role-denied", "context/put-frame", `{:agent/id "reader" :path "b" :frame/type "n" :content "c"}`, "reader"},
			{"agent/unknown", "context/put-frame", `{:agent/id "ghost" :path "b" :frame/type "n" :content "c"}`, "ghost"},
			{"head/conflict", "context/put-frame", `{:path "top.txt" :frame/type "note" :content "c" :expect/head ` + one + `}`, "top.txt"},
			{"synthesis/not-directory", "context/synthesize", `{:path "top.txt" :frame/type "n"}`, "top.txt"},
		} {
			err := b.failure(tc.typ, tc.intent, tc.in)
			assert.Contains(t, err.FullMessage(), tc.object, tc.typ)
		}
	})
	t.Run("tools reproducible from CLI", func(t *testing.T) {
		// A verb of the CLI sends one request: TestWorkspaceVerbsRepeat runs the verbs.
		var roots []string
		for range 2 {
			b := scannedBench(t, fourFiles)
			b.put("top.txt", "note", "x")
			b.call("context/generate", `{:path "." :recursive? true :frame/type "digest"}`)
			b.write(map[string]string{"a/x.txt": "changed\n"})
			b.call("workspace/scan", `{}`)
			b.call("context/regenerate", `{:path "." :recursive? true}`)
			roots = append(roots, b.call("workspace/status", `{}`).Key("state-root").String())
		}
		assert.Equal(t, roots[0], roots[1])
	})
	t.Run("clear separation from core engine", func(t *testing.T) {
		// The host's test of the package graph has the whole list of what core may import.
		require.NoError(t, filepath.WalkDir("core", func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			require.NoError(t, err)
			for _, i := range file.Imports {
				for _, no := range []string{"cobra", "go-plugin", "grpc", `"net"`, "net/http", "ferment/host", "sdk/wire"} {
					assert.NotContains(t, i.Path.Value, no, path)
				}
			}
			return nil
		}))
	})
}
