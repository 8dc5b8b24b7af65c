package httpapi_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// SUP-009, HTTP-009: the log of a plugin is a list, or a stream of events that ends with
// shutdown when the daemon goes down. Only administrators have it, also where acts need
// no credentials.
func TestPluginLogRoute(t *testing.T) {
	w := newWorld(t)
	w.user("ann")
	const what = "/v1/admin/plugins/a/logs"
	list := w.operator("GET "+what+"?lines=2&follow=0", "")
	require.Equal(t, 200, list.status)
	assert.Equal(t, `[{:n 1} "plain"]`, list.value(t).Key("lines").String())
	assert.Equal(t, 401, w.call("GET "+what, "").status)
	for _, query := range []string{"?lines=0", "?lines=1001", "?follow=yes", "?format=xml", "?other=1"} {
		assert.Equal(t, "invalid-request", w.operator("GET "+what+query, "").failure(t), query)
	}
	assert.Equal(t, "not-found", w.operator("GET /v1/admin/plugins/a%2Fb/logs", "").failure(t))
	assert.Equal(t, "text/event-stream", w.operator("HEAD "+what+"?follow=1", "").header.Get("Content-Type"))
	for _, ask := range [][2]string{{"?follow=1&format=edn", "*/*"}, {"?format=edn", "text/event-stream"}} {
		query, accept := ask[0], ask[1]
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+what+query, nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Accept", accept)
		resp, next := w.events(w.admin, r)
		require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
		assert.Empty(t, resp.Header.Get("Ferment-Run-Id"))
		var got []string
		for range 2 {
			e, err := next()
			require.NoError(t, err)
			got = append(got, e.name+" "+e.data.String())
		}
		assert.Equal(t, []string{"log {:n 1}", `log "plain"`}, got)
		if query == "?format=edn" { // the last one
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			go w.server.Shutdown(ctx)
			e, err := next()
			require.NoError(t, err)
			assert.Equal(t, "shutdown {:event :shutdown}", e.name+" "+e.data.String())
		}
	}
}
