package main

import (
	"encoding/base64"
	"os"
	"path/filepath"
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
	b.compareExports()
	report := b.call("context/report", `{:sections [:coverage] :fail-on "stale"}`)
	assert.True(t, report.Key("fail-on").Key("met?").Truthy())
	assert.True(t, report.Key("validation").IsNil(), "it was not asked for")
	report = b.call("context/report", `{}`) // WS-192: all sections
	assert.Equal(t, "true", report.Key("validation").Key("valid?").String(), report)
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

// compareExports compares the state with its export, as bytes and as a file.
func (b *bench) compareExports() {
	export := b.call("workspace/export", `{:path "src"}`).Key("content/b64")
	bytes := edn.MustMap(edn.K("content/b64"), export)
	assert.True(b, b.call("context/diff", `{:from `+bytes.String()+`}`).Key("equal?").Truthy())
	text, _ := export.AsString()
	content, err := base64.StdEncoding.DecodeString(text)
	require.NoError(b, err)
	b.write(map[string]string{".ferment/src.frm": string(content), "src/new.go": "package a\n"})
	b.call("workspace/scan", `{}`)
	file := filepath.Join(b.root, ".ferment/src.frm")
	changed := b.call("context/diff", `{:from {:file "`+file+`"} :to :current}`)
	assert.Equal(b, `{:added ["src/new.go"]}`, changed.Key("nodes").String())
	b.fails("input/invalid", "context/diff", `{:from {:file "`+file+`"} :path "old"}`)
	b.fails("input/invalid", "context/diff", `{:from {} :to 1}`)
	b.fails("import/invalid", "context/diff", `{:from {:file "`+filepath.Join(b.root, "src/a.go")+`"}}`)
	b.fails("import/invalid", "context/diff", `{:from {:content/b64 "AAAA"}}`)
	b.write(map[string]string{"empty": ""})
	b.fails("import/invalid", "context/diff", `{:from {:content/b64 ""}}`)
	b.fails("import/invalid", "workspace/import", `{:content/b64 ""}`)
	b.fails("import/invalid", "workspace/import", `{:file "`+filepath.Join(b.root, "empty")+`"}`)
	b.fails("input/invalid", "workspace/import", `{:content/b64 "" :file "`+filepath.Join(b.root, "empty")+`"}`)
	b.fails("input/invalid", "workspace/import", `{}`)
	denied := b.failure("workspace/root-denied", "context/diff", `{:from {:file "/etc/passwd"}}`)
	assert.Contains(b, denied.Message, "/etc/passwd")
	assert.Contains(b, denied.Hint, "in parts", "what to do with a file that is elsewhere")
	require.NoError(b, os.Remove(filepath.Join(b.root, "src/new.go")))
	b.call("workspace/scan", `{}`)
}

// WS-192: a report and a map can be about a part of the tree.
func TestReportOfAPart(t *testing.T) {
	b := scannedBench(t, fourFiles)
	b.put("a/x.txt", "note", "about x")
	whole, part := b.call("context/report", `{}`), b.call("context/report", `{:path "a" :format :markdown :fail-on "missing:note"}`)
	assert.Equal(t, "{:dir 3 :file 4}", whole.Key("nodes").String())
	assert.Equal(t, "{:dir 1 :file 2}", part.Key("nodes").String())
	assert.Contains(t, part.Key("text").String(), "2 files, 1 directory.")
	assert.Contains(t, part.Key("fail-on").String(), `:paths ["a/y.txt"]`)
	page, _ := b.call("workspace/graph", `{:path "a"}`).Key("html").AsString()
	assert.Contains(t, page, `"names":["a","x.txt","y.txt"]`)
	assert.Contains(t, page, "<h1>"+filepath.Base(b.root)+"/a</h1>")
	for _, intent := range []string{"context/report", "workspace/graph"} {
		b.fails("path/not-in-tree", intent, `{:path "none"}`)
		b.fails("path/invalid", intent, `{:path "a/../b"}`)
	}
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
