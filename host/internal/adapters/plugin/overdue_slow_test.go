//go:build slow

package plugin

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// RUN-013: a call that goes on in the plugin after its cancel, as the reports of the plugin
// show, costs the process its place: the other calls on it end, another process takes the
// next ones, and the transition says why.
func TestCanceledCallGoesOn(t *testing.T) {
	s := as("good")
	s.DrainTimeout = 50 * time.Millisecond
	b := run(t, s).ready()
	first, err := b.ask(context.Background(), `{}`)
	require.NoError(t, err)
	other := make(chan error, 1)
	release := make(chan struct{})
	go func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() { <-release; cancel() }()
		_, err := b.ask(ctx, `{:do "hang"}`)
		other <- err
	}()
	b.inFlight(1)
	ctx, cancel := context.WithCancel(context.Background())
	canceled := make(chan error, 1)
	stuck, begun := request(`{:do "ignore-cancel"}`), make(chan struct{})
	stuck.OnDelta = func(edn.Value) { close(begun) }
	go func() { _, err := b.client.Invoke(ctx, stuck); canceled <- err }()
	<-begun
	cancel()
	require.Error(t, <-canceled)

	require.Eventually(t, func() bool {
		a, err := b.ask(context.Background(), `{}`)
		return err == nil && a.Generation != first.Generation
	}, time.Minute, 500*time.Millisecond, "another process takes the next calls")
	select {
	case err := <-other:
		t.Fatalf("the other call has ended with the process: %v", err)
	default:
	}
	close(release)
	require.Error(t, <-other)
	end := b.until(t, "end of the first", func(tr Transition) bool { return tr.To == Draining })
	assert.Equal(t, CauseOverdue, end.Cause)
	require.NotNil(t, end.Err)
	assert.Equal(t, "runtime/unresponsive", end.Err.Type)
}
