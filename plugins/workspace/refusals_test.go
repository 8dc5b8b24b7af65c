package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/sdktest"
	"github.com/fermenthq/ferment/sdk/wire"
)

// agentBlocks are agents of the configuration: docs is for the caller ci and may
// only add frames.
var agentBlocks = edn.MustRead(`{"docs" {:role "writer" :capabilities ["frame/append" "context/read"] :principals ["user/3"]}}`)

// WS-220: every row of bad input has the stated answer, and nothing is written.
func TestBadInput(t *testing.T) {
	b := start(t, map[string]string{"a.txt": "a", "d/b.txt": "b", "bin": "x\x00y"})
	b.call("workspace/scan", `{}`)
	b.call("context/put-frame", `{:path "a.txt" :frame/type "note" :content "n"}`)
	b.write(map[string]string{"gone.txt": "g"})
	b.call("workspace/scan", `{}`)
	require.NoError(t, os.Remove(filepath.Join(b.root, "gone.txt")))
	b.call("workspace/scan", `{}`)
	outside := t.TempDir()
	require.NoError(t, os.Symlink(outside, filepath.Join(b.root, "out")))
	before := b.call("workspace/status", `{}`)
	long := strings.Repeat("x", 5000)
	digits := strings.Repeat("0", 64)
	for _, row := range []struct{ intent, input, want string }{
		// shape
		{"context/get-node", `{:path "a.txt" :unknown 1}`, "input/invalid"},
		{"context/get-node", `{:path 7}`, "input/invalid"},
		{"context/get-node", `{}`, "input/invalid"},
		{"context/get-node", `{:path "a.txt" :node/id "n1-b3-` + digits + `"}`, "input/invalid"},
		// ids
		{"context/get-node", `{:node/id "n1-b3-` + strings.ToUpper("abcdef01") + digits[:56] + `"}`, "input/invalid"},
		{"context/get-node", `{:node/id "n1-b3-0000"}`, "input/invalid"},
		{"context/get-node", `{:node/id "f1-b3-` + digits + `"}`, "input/invalid"},
		{"context/get-node", `{:node/id "n1-s2-` + digits + `"}`, "input/invalid"},
		{"context/get-node", `{:node/id "n1-b3-` + digits + `"}`, "node/not-found"},
		{"context/get-node", `{:node/id "0000000"}`, "input/invalid"},
		{"context/get-node", `{:node/id "00000000"}`, "node/not-found"},
		// paths
		{"context/get-node", `{:path "/a"}`, "path/invalid"},
		{"context/get-node", `{:path "d/../a.txt"}`, "path/invalid"},
		{"context/get-node", `{:path "d/./b.txt"}`, "path/invalid"},
		{"context/get-node", `{:path "d//b.txt"}`, "path/invalid"},
		{"context/get-node", `{:path "d/"}`, "path/invalid"},
		{"context/get-node", `{:path "` + long + `"}`, "path/invalid"},
		{"context/get-node", `{:path/b64 "YQBi"}`, "path/invalid"},
		{"context/get-node", `{:path/b64 "%%%"}`, "input/invalid"},
		{"context/get-node", `{:path "missing"}`, "path/not-in-tree"},
		{"context/get-node", `{:path "gone.txt"}`, "node/deleted"},
		// the workspace
		{"workspace/scan", `{:workspace "` + b.root + `/missing"}`, "workspace/not-found"},
		{"workspace/scan", `{:workspace "` + b.root + `/a.txt"}`, "workspace/not-found"},
		{"workspace/scan", `{:workspace "` + b.root + `/out"}`, "workspace/root-denied"},
		{"workspace/scan", `{:workspace "` + outside + `"}`, "workspace/root-denied"},
		{"workspace/status", `{:workspace "` + b.root + `/d"}`, "workspace/not-found"},
		{"workspace/init", `{:scheme "s2"}`, "workspace/exists"},
		{"workspace/init", `{:scheme "md5" :workspace "` + b.root + `/d"}`, "input/invalid"},
		// views and orders
		{"context/get-node", `{:path "a.txt" :view {:max-frames -1}}`, "input/invalid"},
		{"context/get-node", `{:path "a.txt" :view {:max-frames 1001}}`, "input/invalid"},
		{"context/get-node", `{:path "a.txt" :view {:max-frames "many"}}`, "input/invalid"},
		{"context/get-node", `{:path "a.txt" :view {:ordering :random}}`, "input/invalid"},
		{"context/get-node", `{:path "a.txt" :view "nope"}`, "input/invalid"},
		{"context/get-node", `{:path "a.txt" :view {:filters [[:colour #{"red"}]]}}`, "input/invalid"},
		{"context/compose", `{:path "a.txt" :sources [:cousins]}`, "input/invalid"},
		{"context/compose", `{:path "a.txt" :ordering :random}`, "input/invalid"},
		{"context/synthesize", `{:path "d" :frame/type "x" :policy {:kind :magic}}`, "input/invalid"},
		{"context/list-frames", `{:path "a.txt" :limit 1001}`, "input/invalid"},
		{"context/list-frames", `{:path "a.txt" :cursor "nonsense"}`, "input/invalid"},
		{"context/list-frames", `{:path "a.txt" :state :tired}`, "input/invalid"},
		// frames
		{"context/put-frame", `{:path "a.txt" :frame/type "note" :content/b64 "_w=x"}`, "frame/invalid"},
		{"context/put-frame", `{:path "a.txt" :frame/type "note" :content "` + strings.Repeat("z", 1<<20+1) + `"}`, "frame/too-large"},
		{"context/put-frame", `{:path "a.txt" :frame/type "" :content "x"}`, "frame/type-invalid"},
		{"context/put-frame", `{:path "a.txt" :frame/type "*" :content "x"}`, "frame/type-invalid"},
		{"context/put-frame", `{:path "a.txt" :frame/type "a b" :content "x"}`, "frame/type-invalid"},
		{"context/put-frame", `{:path "a.txt" :frame/type "` + strings.Repeat("t", 129) + `" :content "x"}`, "frame/type-invalid"},
		{"context/put-frame", `{:path "a.txt" :frame/type "note" :content "x" :meta {:agent/id "ann"}}`, "frame/invalid"},
		{"context/put-frame", `{:path "a.txt" :frame/type "note" :content "x" :meta {:provider "p"}}`, "frame/metadata-policy"},
		{"context/put-frame", `{:path "a.txt" :frame/type "note" :content "x" :basis [:frame "f1-b3-` + digits + `"]}`, "frame/basis-mismatch"},
		{"context/put-frame", `{:path "a.txt" :frame/type "note" :content "x" :basis [:both "f1-b3-` + digits + `" 1]}`, "input/invalid"},
		{"context/put-frame", `{:path "a.txt" :frame/type "note" :content "x" :frame/id "f1-b3-` + digits + `"}`, "frame/id-mismatch"},
		{"context/put-frame", `{:path "a.txt" :frame/type "note" :content "x" :expect/head nil}`, "head/conflict"},
		{"context/put-frame", `{:agent/id "No Such" :path "a.txt" :frame/type "note" :content "x"}`, "agent/invalid"},
		// heads, states and names
		{"context/get-head", `{:path "a.txt" :frame/type "other"}`, "frame/no-head"},
		{"context/get-head", `{:path "a.txt" :frame/type "note" :as-of 4000}`, "seq/unknown"},
		{"context/diff", `{:from "nameless"}`, "seq/unknown"},
		{"workspace/snapshot", `{:op :create :name "not a name"}`, "input/invalid"},
		{"workspace/compact", `{:ttl "soon" :dry-run? true}`, "input/invalid"},
		{"workspace/import", `{:content/b64 "AAAA"}`, "import/invalid"},
		{"workspace/import", `{:file "` + outside + `/x"}`, "workspace/root-denied"},
		{"context/report", `{:fail-on "nonsense"}`, "input/invalid"},
		// deriving
		{"context/synthesize", `{:path "a.txt" :frame/type "note"}`, "synthesis/not-directory"},
		{"context/generate", `{:path "bin" :frame/type "s" :producer :extract/text}`, "generate/binary"},
		{"context/generate", `{:path "a.txt" :frame/type "s" :intent :context/generate}`, "input/invalid"},
		{"context/generate", `{:path "a.txt" :frame/type "s" :intent :context/summarize}`, "provider/not-configured"},
		{"context/agents", `{:op :show :agent/id "ghost"}`, "agent/unknown"},
	} {
		err := b.failure(row.want, row.intent, row.input)
		assert.NotEmpty(t, err.Message, row.input)
	}
	after := b.call("workspace/status", `{}`)
	assert.Equal(t, before.Key("seq").String(), after.Key("seq").String(), "nothing was written")
	assert.Equal(t, before.Key("state-root").String(), after.Key("state-root").String())
}

// WS-062: who may act as whom is decided in one order, and by what the host
// states: a request cannot name its principal.
func TestWhoMayAct(t *testing.T) {
	b := start(t, map[string]string{"a.txt": "a"}, func(cfg map[string]any) {
		delete(cfg, "default-agent")
		cfg["agent"] = agentBlocks
	})
	b.call("workspace/scan", `{:agent/id "writer"}`)
	ann, ci := as("ann"), as("user/3")
	const note = `:path "a.txt" :frame/type "note" :content "x"}`
	for _, row := range []struct {
		who                 wire.CallContext
		intent, input, want string
	}{
		{ann, "context/put-frame", `{` + note, "agent/required"},
		{ann, "context/put-frame", `{:agent/id "ghost" ` + note, "agent/unknown"},
		{ann, "context/put-frame", `{:agent/id "docs" ` + note, "agent/impersonation"},
		{ci, "context/put-frame", `{:agent/id "reader" ` + note, "agent/role-denied"},
		{ci, "context/invalidate", `{:agent/id "docs" :path "a.txt"}`, "agent/role-denied"},
		{ci, "context/synthesize", `{:agent/id "docs" :path "." :frame/type "d"}`, "agent/role-denied"},
		{ci, "workspace/snapshot", `{:agent/id "reader" :op :create :name "s"}`, "agent/role-denied"},
		{ann, "workspace/init", `{}`, "agent/role-denied"},
		{ann, "workspace/delete", `{:path "a.txt"}`, "agent/role-denied"},
		{ann, "workspace/compact", `{}`, "agent/role-denied"},
		{ann, "workspace/repair", `{}`, "agent/role-denied"},
	} {
		b.fails(row.want, row.intent, row.input, row.who)
	}
	_, err := b.try("context/put-frame", `{:agent/id "docs" `+note, ci)
	require.Nil(t, err)
	refused := b.failure("agent/impersonation", "context/put-frame", `{:agent/id "docs" `+note, as("user/4"))
	assert.Contains(t, refused.Hint, `add "user/4" to principals of agent "docs"`)
}

// Sections 2.16 and 2.17: once validate has found a damaged log, the status says so and
// writes are refused, in this and later processes, until a repair.
func TestFoundDamageStopsWrites(t *testing.T) {
	const note = `{:path "a.txt" :frame/type "note" :content "after the damage"}`
	b := start(t, map[string]string{"a.txt": "a"})
	b.call("workspace/scan", `{}`)
	b.call("context/put-frame", `{:path "a.txt" :frame/type "note" :content "about a"}`)
	b.p.Instance().Stop()
	segment := filepath.Join(b.root, ".ferment", "workspace", "log", "00000001.seg")
	text, err := os.ReadFile(segment)
	require.NoError(t, err)
	text[len(text)/3] ^= 1
	require.NoError(t, os.WriteFile(segment, text, 0o600))
	for range 2 {
		b.p = startOn(t, b.root)
		assert.False(t, b.call("workspace/validate", `{}`).Key("valid?").Truthy())
		assert.True(t, b.call("workspace/status", `{}`).Key("damaged?").Truthy())
		b.fails("store/read-only", "context/put-frame", note)
		b.p.Instance().Stop()
	}
	b.p = startOn(t, b.root)
	b.call("workspace/repair", `{:apply? true}`)
	assert.False(t, b.call("workspace/status", `{}`).Key("damaged?").Truthy())
	b.call("context/put-frame", note)
	assert.True(t, b.call("workspace/validate", `{}`).Key("valid?").Truthy())
}

// WS-002, WS-173: a lost frame of a path that is not text has its bytes.
func TestLostFramesHavePaths(t *testing.T) {
	lost := lostFrames([]store.LostFrame{
		{Path: "d/é", Type: "note", Seq: 7},
		{Path: "d/\xff\n", Type: "note", Seq: 8},
	})
	assert.Equal(t, `[{:frame/id nil :frame/type "note" :path "d/é" :seq 7}`+
		` {:frame/id nil :frame/type "note" :path/b64 "ZC__Cg" :seq 8}]`, lost.String())
}

// WS-046, WS-049: a second process reads the store of the first one and is told the same,
// is refused when it writes, and can write once the first one has ended.
func TestTwoProcessesOnOneStore(t *testing.T) {
	first := start(t, map[string]string{"a.txt": "a"})
	first.call("workspace/scan", `{}`)
	second := &bench{T: t, root: first.root}
	second.p = startOn(t, first.root)
	for round := range 2 {
		first.call("context/put-frame", fmt.Sprintf(`{:path "a.txt" :frame/type "note" :content "text %d"}`, round))
		for intent, in := range map[string]string{
			"workspace/status":    `{:breakdown? true}`,
			"workspace/validate":  `{}`,
			"workspace/ignore":    `{:op :list}`,
			"workspace/snapshot":  `{:op :list}`,
			"workspace/export":    `{}`,
			"context/get-node":    `{:path "a.txt"}`,
			"context/list-frames": `{:path "a.txt"}`,
			"context/get-head":    `{:path "a.txt" :frame/type "note"}`,
			"context/history":     `{:path "a.txt"}`,
			"context/compose":     `{:path "a.txt"}`,
			"context/diff":        `{:from 1 :to :current}`,
			"context/report":      `{}`,
		} {
			assert.Equal(t, first.call(intent, in).String(), second.call(intent, in).String(), intent)
		}
	}
	second.fails("store/locked", "workspace/snapshot", `{:op :create :name "x"}`)
	err := second.failure("store/locked", "workspace/scan", `{}`)
	assert.True(t, err.Retryable)
	first.p.Instance().Stop()
	second.call("workspace/scan", `{}`)
}

// WS-025, WS-043: a process that is killed in the middle of a scan leaves the
// previous tree, and the next process goes on.
func TestKilledInAScan(t *testing.T) {
	files := map[string]string{}
	for i := range 2000 {
		files["d"+string(rune('a'+i%20))+"/"+strings.Repeat("n", 1+i/20)] = strings.Repeat("text ", 200)
	}
	b := start(t, map[string]string{"first.txt": "1"})
	seq := b.call("workspace/scan", `{}`).Key("seq").String()
	b.write(files)
	_, err := b.p.Do(t.Context(), sdktest.Call{
		Capability: "workspace/scan",
		Input:      edn.MustMap(),
		OnEvent: func(wire.Event) { // the first one is of the first entries
			require.NoError(t, syscall.Kill(b.p.Instance().PID(), syscall.SIGKILL))
		},
	})
	require.Error(t, err)
	next := &bench{T: t, root: b.root, p: startOn(t, b.root)}
	validated := next.call("workspace/validate", `{}`)
	assert.True(t, validated.Key("valid?").Truthy(), validated)
	assert.Equal(t, seq, validated.Key("seq").String(), "nothing of the scan is there")
	assert.Equal(t, "2020", next.call("workspace/scan", `{}`).Key("added").String())
}
