package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/watch"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/wire"
)

// WS-163: a watch sends its events as deltas and commits what changed; it goes on
// behind a transaction.
func TestWatchStreamsChanges(t *testing.T) {
	b := scannedBench(t, fourFiles)
	before := b.call("workspace/status", `{}`)
	var events []string
	response, err := b.p.Do(t.Context(), callOf("workspace/watch", `{:workspace "`+b.root+`" :debounce 5 :batch 5 :max-changes 1}`, func(e wire.Event) {
		if e.Kind != wire.Delta {
			return
		}
		events = append(events, e.Value.Key("event").String())
		switch e.Value.Key("event").String() {
		case ":ready":
			b.write(map[string]string{"a/x.txt": "changed while watched\n"})
		case ":change":
			assert.Contains(t, e.Value.Key("modified").String(), `"a/x.txt"`)
		}
	}))
	require.NoError(t, err)
	assert.Equal(t, []string{":ready", ":change"}, events)
	assert.Equal(t, "1", response.Key("result").Key("out").Key("changes").String())
	again, err := b.p.Do(t.Context(), callOf("workspace/watch",
		`{:workspace "`+b.root+`" :max-changes 1 :after `+before.Key("seq").String()+`}`, func(wire.Event) {}))
	require.NoError(t, err)
	assert.Equal(t, "1", again.Key("result").Key("out").Key("changes").String(), "what happened before is told again")
	b.fails("agent/role-denied", "workspace/watch", `{:workspace "`+b.root+`" :agent/id "writer" :regenerate {:frame/types ["digest"]}}`)
}

// WS-164: a watch that was asked to regenerates what a batch of changes made stale,
// and tells what it made.
func TestWatchRegenerates(t *testing.T) {
	b := scannedBench(t, fourFiles)
	b.call("context/generate", `{:path "." :recursive? true :frame/type "digest" :producer :extract/auto}`)
	b.call("context/synthesize", `{:agent/id "synthesis" :path "." :frame/type "digest" :policy {:kind :concatenate} :children :build}`)
	for _, c := range []struct{ up, text, directories string }{{"", "one", "2"}, {":up :none", "two", "0"}} {
		b.write(map[string]string{"a/x.txt": c.text + " before\n"})
		b.call("workspace/scan", `{}`)
		b.call("context/regenerate", `{:agent/id "synthesis" :path "." :recursive? true}`)
		ctx, cancel := context.WithCancel(t.Context())
		var report edn.Value
		_, err := b.p.Do(ctx, callOf("workspace/watch",
			`{:workspace "`+b.root+`" :agent/id "synthesis" :debounce 5 :batch 5 :regenerate {:frame/types ["digest"] `+c.up+`}}`, func(e wire.Event) {
				if e.Kind != wire.Delta {
					return
				}
				switch e.Value.Key("event").String() {
				case ":ready":
					b.write(map[string]string{"a/x.txt": c.text + " while watched\n"})
				case ":regenerated":
					report = e.Value.Key("report")
					cancel()
				}
			}))
		cancel()
		require.Error(t, err)
		assert.Equal(t, "1", report.Key("counts").Key("file").String(), "%s", report)
		assert.Equal(t, c.directories, report.Key("counts").Key("directory").String(), "%s", report)
	}
}

// WS-164: a hook that the host does not know is refused before the watch begins.
func TestUnknownHook(t *testing.T) {
	b := scannedBench(t, fourFiles)
	b.host.Answer(contract.DescribeIntent, func(_ context.Context, c wire.Call, _ *wire.Emitter) (edn.Value, error) {
		return edn.Nil(), contract.Errorf("invalid-request", "no intent %s", c.Request.Key("input").Key("refs"))
	})
	err := b.failure("input/invalid", "workspace/watch", `{:workspace "`+b.root+`" :on-change {:intent :none/hook} :max-changes 1}`)
	assert.Equal(t, "[:on-change :intent]", err.Details.Key("path").String())
	assert.Contains(t, err.Message, ":none/hook")
	err = b.failure("input/invalid", "workspace/watch", `{:workspace "`+b.root+`" :on-change {:intent :context/generate} :max-changes 1}`)
	assert.Equal(t, "[:on-change :intent]", err.Details.Key("path").String())
}

// WS-162: requests that begin to watch at the same time share one watcher.
func TestWatchesAtOnceShareAWatcher(t *testing.T) {
	o := &opened{}
	first, done := o.watcher(watch.Options{})
	second, doneToo := o.watcher(watch.Options{})
	assert.Same(t, first, second)
	done()
	third, doneLast := o.watcher(watch.Options{})
	assert.Same(t, first, third, "the second request uses it")
	doneToo()
	doneLast()
	next, _ := o.watcher(watch.Options{})
	assert.NotSame(t, first, next, "the first request decides the options")
}
