package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// WS-060: an agent is declared or built in; its shape has role, capabilities, model,
// prompts and principals, and nothing of it depends on a provider.
func TestAgentsAreDeclaredOrBuiltIn(t *testing.T) {
	b := start(t, map[string]string{"a": "1"}, func(cfg map[string]any) {
		cfg["agent"] = edn.MustRead(`{"docs" {:role "writer" :capabilities ["frame/append" "context/read"] :principals ["user/3"]}}`)
	})
	listed := map[string]edn.Value{}
	for a := range b.call("context/agents", `{:op :list}`).Key("agents").Elems() {
		id, _ := a.Key("agent/id").AsString()
		listed[id] = a
	}
	for id, want := range map[string]string{"docs": ":writer", "reader": ":reader", "writer": ":writer", "synthesis": ":synthesis"} {
		assert.Equal(t, want, listed[id].Key("role").String(), id)
	}
	shown := b.call("context/agents", `{:op :show :agent/id "docs"}`)
	assert.Equal(t, "#{:context/read :frame/append}", shown.Key("capabilities").String())
	assert.Equal(t, `["user/3"]`, shown.Key("principals").String())
	assert.True(t, shown.Key("model").IsNil(), "it works without a model")
}

// WS-086: reading, putting, scanning and watching make no frame of a directory, not even
// where all of its entries have one.
func TestOnlyWhoAsksSynthesizes(t *testing.T) {
	b := scannedBench(t, fourFiles)
	for path := range fourFiles {
		b.put(path, "digest", "about "+path)
	}
	frames := func() string { return b.call("workspace/status", `{}`).Key("frames").String() }
	require.Equal(t, "4", frames())
	for intent, in := range map[string]string{
		"context/get-node":    `{:path "a"}`,
		"context/compose":     `{:path "a" :sources [:current :parent :siblings]}`,
		"context/report":      `{}`,
		"workspace/validate":  `{}`,
		"workspace/scan":      `{:force? true}`,
		"context/list-frames": `{:path "a"}`,
	} {
		b.call(intent, in)
		assert.Equal(t, "4", frames(), intent)
	}
	b.fails("frame/no-head", "context/get-head", `{:path "a" :frame/type "digest"}`)
	b.write(map[string]string{"a/x.txt": "changed\n"})
	b.call("workspace/watch", `{:workspace "`+b.root+`" :debounce 5 :batch 5 :max-changes 1 :after 1}`)
	assert.Equal(t, "4", frames(), "a watch that was not asked to")
	b.call("context/synthesize", `{:agent/id "synthesis" :path "a" :frame/type "digest" :policy :concatenate}`)
	assert.Equal(t, "5", frames())
}

// WS-119: a regeneration reports counts, and for each item the old and the new frame, the
// reason and how long it took.
func TestReportOfRegeneration(t *testing.T) {
	b := scannedBench(t, fourFiles)
	b.call("context/generate", `{:path "." :recursive? true :frame/type "digest" :producer :extract/text}`)
	b.call("context/synthesize", `{:agent/id "synthesis" :path "." :frame/type "digest" :policy :concatenate :children :build}`)
	b.write(map[string]string{"a/x.txt": "changed\n"})
	b.call("workspace/scan", `{}`)
	b.call("context/invalidate", `{:path "b" :frame/types ["digest"]}`)
	old := map[string]string{}
	for _, path := range []string{"a/x.txt", "a", "b", "."} {
		old[path] = b.call("context/get-head", `{:path "`+path+`" :frame/type "digest"}`).Key("frame/id").String()
	}
	out := b.call("context/regenerate", `{:agent/id "synthesis" :path "." :recursive? true}`)
	assert.Equal(t, "{:directory 2 :failed 0 :file 1 :reused 1 :skipped 0}", out.Key("counts").String())
	reasons := map[string]string{}
	for i := range out.Key("items").Elems() {
		path, _ := i.Key("path").AsString()
		reasons[path] = i.Key("reason").String()
		assert.Equal(t, old[path], i.Key("old").String(), path)
		assert.Equal(t, path == "b", i.Key("new").Equal(i.Key("old")), path)
		ms, ok := i.Key("ms").AsInt()
		assert.True(t, ok && ms >= 0, path)
	}
	assert.Equal(t, map[string]string{"a/x.txt": ":node-changed", "a": ":node-changed", "b": ":invalidated", ".": ":node-changed"}, reasons)
	b.put("a/y.txt", "digest", "by hand")
	child := b.call("context/regenerate", `{:agent/id "synthesis" :path "a"}`)
	first, _ := child.Key("items").Nth(0)
	assert.Equal(t, ":child-changed", first.Key("reason").String())
	forced := b.call("context/regenerate", `{:agent/id "synthesis" :path "a" :force? true}`)
	first, _ = forced.Key("items").Nth(0)
	assert.Equal(t, ":forced", first.Key("reason").String())
}
