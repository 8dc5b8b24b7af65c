package httpapi_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/edn"
)

// tune changes the settings as a reload does.
func (w *world) tune(change func(*httpapi.Settings)) {
	s := *w.settings.Load()
	change(&s)
	w.settings.Store(&s)
}

// AUTH-033: acts beyond the rate are rejected with a retry time and run
// nothing; probes and operators get through; a reload may lift the limit.
func TestActRate(t *testing.T) {
	w := newWorld(t, func(s *httpapi.Settings) {
		s.Limits.ActRate, s.Limits.ActBurst = config.Rate{Events: 2, Per: time.Hour}, 3
		s.Limits.AnonymousRate = config.Rate{Events: 1, Per: time.Hour}
	})
	w.exec.On("t/any", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`)})
	for range 3 {
		require.Equal(t, 200, w.call("POST /v1/act", jsonAct("t/any", "{}")).status)
	}
	a := w.call("POST /v1/act", jsonAct("t/any", "{}"))
	assert.Equal(t, 429, a.status)
	assert.Equal(t, "auth/rate-limited", a.failure(t))
	assert.Contains(t, string(a.body), "2 in 1h0m0s")
	after, err := strconv.Atoi(a.header.Get("Retry-After"))
	require.NoError(t, err)
	assert.InDelta(t, 1800, after, 60, "half an hour for the next token")
	assert.Len(t, w.exec.Calls(), 3)
	for i := range 4 { // each operation has a bucket
		assert.Equal(t, map[bool]int{true: 200, false: 429}[i < 3], w.call("GET /v1/runs", "").status)
	}
	for range 9 {
		assert.Equal(t, 200, w.call("GET /health", "").status)
		assert.Equal(t, 200, w.call("GET /ready", "").status)
		assert.Equal(t, 200, w.operator("POST /v1/act", jsonAct("t/any", "{}")).status)
		assert.Equal(t, 200, w.operator("GET /routes", "").status)
	}
	for i := range 3 { // another bucket, with a burst of twice its rate
		assert.Equal(t, map[bool]int{true: 200, false: 429}[i < 2], w.call("GET /routes", "").status)
	}
	w.tune(func(s *httpapi.Settings) { s.Limits.ActBurst = 1000 })
	assert.Equal(t, 200, w.call("POST /v1/act", jsonAct("t/any", "{}")).status)
}
