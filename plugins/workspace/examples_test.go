package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// WS-200: every example of the contracts answers with what its schema says.
func TestExamplesOfTheContracts(t *testing.T) {
	b := start(t, map[string]string{
		"src/a.go": "package a\n", "src/b.go": "package b\n", "src/in/c.go": "package c\n", ".gitignore": "*.log\n", "old/x.txt": "x", "a.log": "noise",
	})
	init := b.call("workspace/init", `{:scheme "b3"}`)
	assert.True(t, init.Key("created?").Truthy())
	scanned := b.call("workspace/scan", `{:force? false}`)
	assert.Equal(t, "9", scanned.Key("added").String())
	b.call("workspace/snapshot", `{:op :create :name "run-17"}`)
	assert.Equal(t, 1, b.call("workspace/snapshot", `{:op :list}`).Key("snapshots").Len())
	put := b.call("context/put-frame", `{:path "src/a.go" :frame/type "note" :content "Parses flags." :basis :node :meta {:ticket "T-9"}}`)
	assert.Equal(t, "nil", put.Key("head/previous").String())
	assert.Equal(t, 1, b.call("context/list-frames", `{:path "src/a.go" :frame/type "note" :limit 20}`).Key("frames").Len())
	assert.Equal(t, ":fresh", b.call("context/get-head", `{:path "src/a.go" :frame/type "note"}`).Key("state").String())
	node := b.call("context/get-node", `{:path "src/a.go" :view {:max-frames 10}}`)
	assert.Equal(t, "1", node.Key("frame/returned").String())
	first, _ := node.Key("frames").Nth(0)
	assert.Equal(t, `"Parses flags."`, first.Key("content").String())
	assert.Equal(t, 1, b.call("context/history", `{:path "src/a.go" :limit 2}`).Key("versions").Len())
	composed := b.call("context/compose", `{:path "src/b.go" :sources [:current :siblings] :ordering :relevance :query "flag parsing" :max-frames 5}`)
	assert.Equal(t, 1, composed.Key("frames").Len())
	status := b.call("workspace/status", `{:breakdown? true :coverage? true}`)
	assert.True(t, status.Key("scanned?").Truthy())
	assert.Equal(t, ":off", status.Key("watch").String())
	b.write(map[string]string{"src/a.go": "package a // changed\n"})
	b.call("workspace/scan", `{}`)
	assert.Equal(t, ":stale", b.call("context/get-head", `{:path "src/a.go" :frame/type "note"}`).Key("state").String())
	diff := b.call("context/diff", `{:from "run-17" :to :current}`)
	assert.Equal(t, `["src/a.go"]`, diff.Key("nodes").Key("modified").String())
	report := b.call("context/report", `{:sections [:coverage] :fail-on "stale"}`)
	assert.True(t, report.Key("fail-on").Key("met?").Truthy())
	report = b.call("context/report", `{:sections [:validation] :fail-on "invalid|inexact"}`)
	assert.Equal(t, "false true", report.Key("fail-on").Key("met?").String()+" "+report.Key("validation").Key("valid?").String())
	assert.Equal(t, "2", b.call("workspace/delete", `{:path "old"}`).Key("tombstoned").String())
	assert.Equal(t, "0", b.call("workspace/delete", `{:path "old"}`).Key("tombstoned").String())
	assert.Equal(t, 2, b.call("workspace/status", `{:deleted {}}`).Key("deleted").Len())
	assert.Equal(t, "2", b.call("workspace/restore", `{:path "old"}`).Key("restored").String())
	explained := b.call("workspace/ignore", `{:op :explain :path "a.log"}`)
	assert.Equal(t, `[true ".gitignore" 1 "*.log"]`, edn.Vector(explained.Key("ignored?"), explained.Key("source"), explained.Key("line"), explained.Key("pattern")).String())
	assert.Equal(t, "1", b.call("workspace/ignore", `{:op :add :pattern "old/"}`).Key("added").String())
	assert.Equal(t, `["old/"]`, b.call("workspace/ignore", `{:op :list}`).Key("patterns").String())
	validated := b.call("workspace/validate", `{:level :full}`)
	assert.True(t, validated.Key("valid?").Truthy(), validated)
	exported := b.call("workspace/export", `{:path "src" :history? true}`)
	imported := b.call("workspace/import", `{:content/b64 `+exported.Key("content/b64").String()+` :blob `+exported.Key("blob").String()+` :on-conflict :fail}`)
	assert.Equal(t, "0 1", imported.Key("imported").String()+" "+imported.Key("existing").String())
	shown := b.call("context/agents", `{:op :show :agent/id "writer"}`)
	assert.Equal(t, ":writer", shown.Key("role").String())
	require.True(t, shown.Key("valid?").Truthy())
}

// WS-190: a batch answers in order and item by item; an atomic one writes all or
// nothing.
func TestBatch(t *testing.T) {
	b := start(t, map[string]string{"a": "1", "b": "2"})
	b.call("workspace/scan", `{}`)
	out := b.call("context/batch", `{:concurrency 2 :items [
		{:intent :context/put-frame :input {:path "a" :frame/type "note" :content "x"}}
		{:intent :context/get-head :input {:path "missing" :frame/type "note"}}
		{:intent :workspace/status}]}`)
	assert.Equal(t, "2 1", out.Key("ok").String()+" "+out.Key("failed").String())
	second, _ := out.Key("results").Nth(1)
	assert.Equal(t, ":path/not-in-tree", second.Key("error").Key("type").String())
	before := b.call("workspace/status", `{}`).Key("seq").String()
	err := b.failure("path/not-in-tree", "context/batch", `{:atomic? true :items [
		{:intent :context/put-frame :input {:path "b" :frame/type "note" :content "y"}}
		{:intent :context/put-frame :input {:path "missing" :frame/type "note" :content "z"}}]}`)
	assert.Equal(t, "1", err.Details.Key("item").String())
	assert.Equal(t, before, b.call("workspace/status", `{}`).Key("seq").String(), "nothing was written")
	atomic := b.call("context/batch", `{:atomic? true :items [
		{:intent :context/put-frame :input {:path "b" :frame/type "note" :content "y"}}
		{:intent :context/invalidate :input {:path "a" :frame/types ["note"]}}]}`)
	assert.Equal(t, "2", atomic.Key("ok").String())
	assert.Equal(t, ":invalid", b.call("context/get-head", `{:path "a" :frame/type "note"}`).Key("state").String())
	b.fails("input/invalid", "context/batch", `{:items [{:intent :context/batch :input {}}]}`)
	b.fails("input/invalid", "context/batch", `{:atomic? true :items [{:intent :workspace/scan}]}`)
	b.fails("agent/role-denied", "context/batch", `{:agent/id "reader" :items [{:intent :context/put-frame :input {:path "b" :frame/type "note" :content "y"}}] :atomic? true}`)
}
