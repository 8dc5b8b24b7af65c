package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
