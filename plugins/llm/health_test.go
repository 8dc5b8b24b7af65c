package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/internal/provider/wiretest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/sdktest"
	"github.com/fermenthq/ferment/sdk/wire"
)

// watched returns a function that returns the next state of a plugin.
func watched(t *testing.T, p *sdktest.Plugin) func() wire.Health {
	states := make(chan wire.Health)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.Client().Watch(ctx, func(h wire.Health) error {
			select {
			case states <- h:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	return func() wire.Health {
		for {
			if h := <-states; h.State != wire.HealthStarting {
				return h
			}
		}
	}
}

// The health report costs nothing: no request is made, and the plugin stays
// callable.
func TestHealth(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	at := l.Addr().String()
	require.NoError(t, l.Close())
	clock := wiretest.NewClock()
	p := sdktest.Serve(t, newPlugin(clock), sdktest.WithConfig(settingsFor(t, "openai-chat", "http://"+at+"/v1", "", "")),
		sdktest.WithSecrets(map[string]string{"api-key": canary}), sdktest.WithoutLeakCheck())
	next := watched(t, p)
	h := next()
	assert.Equal(t, wire.HealthDegraded, h.State)
	assert.True(t, h.State.Callable())
	assert.Contains(t, h.Reason, ":provider/unavailable")
	assert.Equal(t, contract.SourceDownstream, h.Source, "an outage is no fault of the plugin")

	l, err = net.Listen("tcp", at)
	require.NoError(t, err)
	asked := make(chan string, 10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path }))
	require.NoError(t, server.Listener.Close())
	server.Listener = l
	server.Start()
	clock.Fire(t, lookAgain)
	assert.Equal(t, wire.HealthReady, next().State)
	assert.Empty(t, asked, "no request was made")

	server.CloseClientConnections()
	server.Close()
	r := &rig{t: t, Plugin: p, id: "openai/voice"}
	o := r.ask(t.Context(), "model/chat", hello, "", nil)
	assert.Equal(t, "provider/unavailable", failureOf(o.err))
	assert.Equal(t, wire.HealthDegraded, next().State, "a call that found nobody makes it look again")
}
