package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/wire"
)

// SUP-006, WS-050: when the host begins to drain the process, a watch ends so that it can
// be continued in the next process, which can write at once.
func TestDrainHandsOver(t *testing.T) {
	b := scannedBench(t, fourFiles)
	ready := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		response, err := b.p.Do(t.Context(), callOf("workspace/watch", `{:workspace "`+b.root+`" :debounce 5 :batch 5}`,
			func(e wire.Event) {
				if e.Kind == wire.Delta && e.Value.Key("event").String() == ":ready" {
					close(ready)
				}
			}))
		if err == nil {
			err = contract.ErrorFromValue(response.Key("error"), contract.SourcePlugin)
		}
		ended <- err
	}()
	<-ready
	unfinished, err := b.p.Client().Drain(t.Context(), time.Now().Add(time.Minute), "test")
	require.NoError(t, err)
	assert.Zero(t, unfinished, "before the deadline")
	require.ErrorIs(t, <-ended, contract.OfType("runtime/not-ready"))
	next := &bench{T: t, root: b.root, p: startOn(t, b.root)}
	next.call("context/put-frame", putNote)
}
