package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/edn"
)

// WS-172: status and validate count the same nodes and frames, whatever was deleted,
// removed or imported.
func TestCountsOfStatusAndValidate(t *testing.T) {
	b := scannedBench(t, fourFiles)
	same := func(what string) {
		t.Helper()
		status, validated := b.call("workspace/status", `{}`), b.call("workspace/validate", `{}`)
		var nodes int64
		for _, n := range status.Key("nodes").Entries() {
			count, _ := n.AsInt()
			nodes += count
		}
		assert.Equal(t, edn.Int(nodes).String(), validated.Key("nodes").String(), what)
		assert.Equal(t, status.Key("frames").String(), validated.Key("frames").String(), what)
		assert.Equal(t, status.Key("state-root").String(), validated.Key("state-root").String(), what)
	}
	same("scanned")
	b.put("a/x.txt", "note", "about x")
	b.put("top.txt", "note", "about top")
	same("with frames")
	b.call("workspace/delete", `{:path "a"}`)
	same("deleted")
	require.NoError(t, os.Remove(filepath.Join(b.root, "a/x.txt")))
	b.call("workspace/scan", `{}`)
	same("deleted and removed")
	b.call("workspace/restore", `{:path "a"}`)
	same("restored")

	exported := b.call("workspace/export", `{:history? true}`)
	empty := &bench{T: t, root: t.TempDir()}
	empty.p = startOn(t, empty.root)
	empty.call("workspace/init", `{}`)
	empty.call("workspace/import", `{:content/b64 `+exported.Key("content/b64").String()+`}`)
	status, validated := empty.call("workspace/status", `{}`), empty.call("workspace/validate", `{}`)
	assert.Equal(t, "2", status.Key("frames").String(), "of paths that were not scanned yet")
	assert.Equal(t, status.Key("frames").String(), validated.Key("frames").String())
}

// WS-022: the status of a tree says that its scan skipped what it could not read.
func TestStatusOfAnIncompleteTree(t *testing.T) {
	b := start(t, map[string]string{"a": "1"})
	b.call("workspace/init", `{}`)
	assert.True(t, b.call("workspace/status", `{}`).Key("tree/complete?").IsNil(), "there is no tree")
	b.call("workspace/scan", `{}`)
	assert.Equal(t, "true", b.call("workspace/status", `{}`).Key("tree/complete?").String())
	b.p.Instance().Stop()
	s, err := store.Open(context.Background(), store.DataDir(b.root), store.Options{Now: func() int64 { return 1 }})
	require.NoError(t, err)
	_, err = s.Update(context.Background(), "scan", func(tx *store.Tx) error {
		now, err := tx.Scanned()
		require.NoError(t, err)
		now.Incomplete = true
		return tx.SetScanned(now)
	})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	next := &bench{T: t, root: b.root, p: startOn(t, b.root)}
	assert.Equal(t, "false", next.call("workspace/status", `{}`).Key("tree/complete?").String())
	next.call("workspace/scan", `{}`)
	assert.Equal(t, "true", next.call("workspace/status", `{}`).Key("tree/complete?").String())
}

// WS-185, WS-210: an error about a path that an ignore rule leaves out names the rule.
func TestIgnoredPathsNameTheRule(t *testing.T) {
	b := start(t, map[string]string{".gitignore": "\n*.go\n", "src/x.go": "package x", "src/y.txt": "y"})
	b.call("workspace/scan", `{}`)
	for intent, in := range map[string]string{
		"context/get-node":    `:path "src/x.go"`,
		"context/put-frame":   `:path "src/x.go" :frame/type "note" :content "x"`,
		"context/list-frames": `:path "src/x.go"`,
		"context/get-head":    `:path "src/x.go" :frame/type "note"`,
		"context/history":     `:path "src/x.go"`,
		"context/compose":     `:path "src/x.go"`,
		"context/generate":    `:path "src/x.go" :producer :extract/text`,
		"context/regenerate":  `:path "src/x.go"`,
		"context/synthesize":  `:path "src/x.go" :frame/type "note" :policy :concatenate`,
		"context/report":      `:path "src/x.go"`,
		"workspace/export":    `:path "src/x.go"`,
		"workspace/delete":    `:path "src/x.go"`,
	} {
		typ := "path/not-in-tree"
		if intent == "context/compose" {
			typ = "node/not-found"
		}
		err := b.failure(typ, intent, "{"+in+"}")
		assert.Contains(t, err.Message, `.gitignore:2 "*.go"`, intent)
		assert.Equal(t, `"*.go"`, err.Details.Key("pattern").String(), intent)
	}
	in := b.call("context/batch", `{:items [{:intent :context/get-node :input {:path "src/x.go"}}]}`)
	first, _ := in.Key("results").Nth(0)
	assert.Contains(t, first.Key("error").Key("message").String(), ".gitignore:2")
	assert.NotContains(t, b.failure("path/not-in-tree", "context/get-node", `{:path "src/none"}`).Message, ".gitignore")
}

// WS-033, WS-185: explain and errors say why a path is not in the tree that no rule ignores.
func TestSkippedPaths(t *testing.T) {
	b := start(t, map[string]string{".gitignore": "ignored\n", "d/x": "1"})
	require.NoError(t, os.Symlink("d", filepath.Join(b.root, "link")))
	for _, name := range []string{"pipe", "ignored"} {
		require.NoError(t, syscall.Mkfifo(filepath.Join(b.root, name), 0o600))
	}
	b.call("workspace/scan", `{}`)
	for path, why := range map[string]string{"pipe": "FIFO", "link/x": "symlink link"} {
		out := b.call("workspace/ignore", `{:op :explain :path "`+path+`"}`)
		assert.False(t, out.Key("ignored?").Truthy(), path)
		assert.Contains(t, out.Key("skipped").String(), why)
		failed := b.failure("path/not-in-tree", "context/get-node", `{:path "`+path+`"}`)
		assert.Contains(t, failed.Message, why)
		assert.NotContains(t, failed.Hint, "explain", path)
	}
	for path, ignored := range map[string]bool{"d/x": false, "link": false, "d/none": false, "ignored": true, ".git/config": true} {
		out := b.call("workspace/ignore", `{:op :explain :path "`+path+`"}`)
		assert.Equal(t, ignored, out.Key("ignored?").Truthy(), path)
		assert.True(t, out.Key("skipped").IsNil(), path)
		assert.NotEqual(t, "0", out.Key("line").String(), path)
	}
}

// WS-185, WS-210: a path that was deleted or removed is node/deleted for every intent,
// and the next step is what brings it back; what only reads can do is named for reads only.
func TestGonePaths(t *testing.T) {
	b := start(t, map[string]string{"a/x": "1", "b/x": "2"})
	b.call("workspace/scan", `{}`)
	b.call("workspace/delete", `{:path "a"}`)
	require.NoError(t, os.RemoveAll(filepath.Join(b.root, "b")))
	b.call("workspace/scan", `{}`)
	for intent, in := range map[string]string{
		"context/get-node":   ``,
		"context/compose":    ``,
		"context/report":     ``,
		"context/put-frame":  `:frame/type "note" :content "x"`,
		"context/generate":   `:producer :extract/text`,
		"context/regenerate": ``,
		"context/synthesize": `:frame/type "note" :policy :concatenate`,
	} {
		for path, step := range map[string]string{"a": "workspace restore PATH", "b": "workspace scan"} {
			err := b.failure("node/deleted", intent, `{:path "`+path+`" `+in+`}`)
			assert.Contains(t, err.Hint, step, "%s %s", intent, path)
			reads := intent == "context/get-node" || intent == "context/compose" || intent == "context/report"
			assert.Equal(t, reads, strings.Contains(err.Hint, ":as-of"), "%s: %s", intent, err.Hint)
			assert.Equal(t, intent == "context/get-node", strings.Contains(err.Hint, ":include"), "%s: %s", intent, err.Hint)
		}
	}
}

// WS-194: equal states give equal reports, however many transactions led to them.
func TestEqualReports(t *testing.T) {
	short, long := scannedBench(t, fourFiles), scannedBench(t, fourFiles)
	long.put("top.txt", "note", "first")
	for _, b := range []*bench{short, long} {
		b.put("a/x.txt", "note", "about x")
	}
	short.put("top.txt", "note", "first")
	long.call("workspace/snapshot", `{:op :create :name "x"}`)
	for _, format := range []string{"", ":format :markdown", ":format :junit"} {
		a, b := short.call("context/report", "{"+format+"}"), long.call("context/report", "{"+format+"}")
		assert.Equal(t, a.String(), b.String())
		assert.True(t, a.Key("seq").IsNil())
		assert.NotEmpty(t, a.Key("root").String())
	}
}
