package httpapi_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/sdk/edn"
)

// RUN-032, RUN-033: the header Ferment-Cache says how an act used the cache, and
// Cache-Control what it may take from it. An intent that is not cacheable has no header.
func TestCacheHeader(t *testing.T) {
	w := newWorld(t)
	w.exec.On("t/cached", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`)}, dispatchtest.Step{Value: edn.MustRead(`{:n 2}`)},
		dispatchtest.Step{Value: edn.MustRead(`{:n 3}`)}, dispatchtest.Step{Value: edn.MustRead(`{:n 4}`)})
	for i, step := range []struct {
		control, outcome, n string
	}{
		{"", "miss", "1"},
		{"max-age=0", "hit", "1"},
		{"No-Cache", "miss", "2"},
		{"", "hit", "2"},
		{"max-stale, no-store", "bypass", "3"},
		{"no-cache, no-store", "bypass", "4"},
		{"", "hit", "2"},
	} {
		a := w.call("POST /v1/act", jsonAct("t/cached", `{}`), "Cache-Control", step.control)
		assert.Equal(t, step.outcome, a.header.Get("Ferment-Cache"), "step %d", i)
		v := a.value(t)
		assert.Equal(t, step.n, v.Key("result").Key("out").Key("n").String(), "step %d", i)
		assert.Equal(t, step.outcome == "hit", text(v.Key("usage"), "mode") == "cache", "step %d", i)
	}
	resp, next := w.follow(t.Context(), jsonAct("t/cached", "{}"), "/v1/act")
	all(t, next)
	assert.Equal(t, "bypass", resp.Header.Get("Ferment-Cache"), "a stream")
	assert.Empty(t, w.call("POST /v1/act", jsonAct("t/any", `{}`)).header.Values("Ferment-Cache"))
}
