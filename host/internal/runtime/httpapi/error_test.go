package httpapi_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/dispatchtest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// HTTP-004: the status of every error type is that of the catalogue, and
// retryable ones have Retry-After.
func TestStatusIsThatOfTheCatalogue(t *testing.T) {
	w := newWorld(t)
	rows := contract.Rows()
	require.Greater(t, len(rows), 100)
	for _, row := range rows {
		typ := row.Type
		err := contract.Errorf(typ, "as the test wants it")
		w.failing.Store(err)
		a := w.operator("POST /v1/admin", `{"action":"plugin-restart","plugin":"a"}`)
		want := err.HTTPStatus()
		if want < 400 {
			want = 500 // an error never has a success status
		}
		assert.Equal(t, want, a.status, typ)
		assert.Equal(t, typ, a.failure(t))
		if (want == 503 || want == 429) && err.Retryable {
			assert.NotEmpty(t, a.header.Get("Retry-After"), typ)
		}
		<-w.audited
	}
}

// HTTP-003: the format of errors by route; a run is named in a header of its
// response, also of a failed one; a defect shows an id and no stack.
func TestFormsOfFailure(t *testing.T) {
	w := newWorld(t)
	w.fails(errorOf("runtime/crashed"))
	a := w.call("POST /v1/act", jsonAct("t/any", "{}"))
	v := a.value(t)
	for _, key := range []string{"type", "message", "retryable?", "class", "source", "where"} {
		assert.False(t, v.Key("error").Key(key).IsNil(), key)
	}
	run, _ := v.Key("run/id").AsString()
	assert.Regexp(t, "^run_", run)
	assert.Equal(t, run, a.header.Get("Ferment-Run-Id"))
	assert.Equal(t, `"t"`, v.Key("trace").Key("id").String())
	refused := w.call("POST /v1/act", `{"proto":1,"trace":{"id":"mine"},"task":{"intent":"t/nope"},"input":{}}`)
	assert.Equal(t, `"mine"`, refused.value(t).Key("trace").Key("id").String(), "%s", refused.body)

	w.failing.Store(errorOf("not-found"))
	v = w.operator("POST /v1/admin", `{"action":"plugin-restart","plugin":"a"}`).value(t)
	assert.Equal(t, "false", v.Key("ok?").String())
	for _, key := range []string{"type", "message", "retryable?"} {
		assert.False(t, v.Key(key).IsNil(), key)
		assert.Equal(t, v.Key("error").Key(key).String(), v.Key(key).String())
	}
	v = w.call("GET /nowhere", "").value(t)
	assert.Equal(t, 1, v.Len())

	w.panics.Store(true)
	w.exec.On("t/any", dispatchtest.Step{Value: edn.MustRead(`{:n 1}`)})
	a = w.call("POST /v1/act", jsonAct("t/any", "{}"))
	assert.Equal(t, "runtime/internal", a.failure(t))
	assert.Regexp(t, "under [0-9a-f]{16}", string(a.body))
	assert.False(t, strings.Contains(string(a.body), ".go:") || strings.Contains(string(a.body), "a defect\""), "%s", a.body)
}
