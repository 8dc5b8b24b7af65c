package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk/contract"
)

// HTTP-008: an action with an idempotency key is executed once. Its answer, also a final
// refusal, comes again in each format; the key with another body is a mismatch, and the
// key of another caller or of another action is another key.
func TestKeysOfActions(t *testing.T) {
	w := newWorld(t)
	const key = "Idempotency-Key"
	audited := func() (rows []string) {
		for len(w.audited) > 0 {
			e := <-w.audited
			row := e.Action
			if e.Replayed {
				row += " replayed"
			}
			if e.Err != nil {
				row += " " + e.Err.Type
			}
			rows = append(rows, row)
		}
		return rows
	}
	ask := func(body, key string) answer { return w.operator("POST /v1/admin", body, "Idempotency-Key", key) }

	first := ask(`{"action":"create-user","user":"ann"}`, "k-1")
	require.Equal(t, 200, first.status, "%s", first.body)
	assert.Empty(t, first.header.Get("Idempotency-Replayed"))
	again := ask(`{"action":"admin/create-user","user":"ann"}`, "k-1")
	assert.Equal(t, 200, again.status)
	assert.Equal(t, "true", again.header.Get("Idempotency-Replayed"))
	assert.Equal(t, string(first.body), string(again.body))
	assert.Equal(t, []string{"admin/create-user", "admin/create-user replayed"}, audited(), "it was executed once")
	asEDN := w.operator("POST /v1/admin", `{:action :create-user :user "ann"}`, key, "k-1", "Content-Type", "application/edn", "Accept", "application/edn")
	assert.Equal(t, first.value(t).Key("result").Key("login").String(), asEDN.value(t).Key("result").Key("login").String())
	assert.Equal(t, "idempotency/mismatch", ask(`{"action":"create-user","user":"bob"}`, "k-1").failure(t))
	assert.Equal(t, []string{"admin/create-user replayed", "admin/create-user idempotency/mismatch"}, audited(), "TEL-002: who asked again is in the trail")
	assert.Equal(t, 404, w.operator("POST /v1/admin", `{"action":"show-user","user":"bob"}`).status)
	assert.Equal(t, 200, ask(`{"action":"show-user","user":"ann"}`, "k-1").status, "the key of another action")

	refused := ask(`{"action":"create-user","user":"ann"}`, "k-2")
	assert.Equal(t, "user/already-exists", refused.failure(t))
	require.Equal(t, 200, w.operator("POST /v1/admin", `{"action":"delete-user","user":"ann"}`).status)
	audited()
	assert.Equal(t, string(refused.body), string(ask(`{"action":"create-user","user":"ann"}`, "k-2").body), "a final refusal is an answer")
	assert.Equal(t, []string{"admin/create-user replayed user/already-exists"}, audited())
	assert.Equal(t, 200, ask(`{"action":"create-user","user":"ann"}`, "k-3").status)

	w.failing.Store(contract.Errorf("runtime/overloaded", "too much"))
	assert.Equal(t, http.StatusServiceUnavailable, ask(`{"action":"plugin-restart","plugin":"x"}`, "k-4").status)
	w.failing.Store(nil)
	assert.Equal(t, 202, ask(`{"action":"plugin-restart","plugin":"x"}`, "k-4").status, "a retryable error is not kept")
	assert.Equal(t, "true", ask(`{"action":"plugin-restart","plugin":"x"}`, "k-4").header.Get("Idempotency-Replayed"))
}

// HTTP-008, AUTH-003: the text of a token is in the first answer only, and an action with
// a password takes no key: neither is kept.
func TestKeysKeepNoSecrets(t *testing.T) {
	w := newWorld(t)
	w.user("ann")
	body := `{"action":"token-create","user":"ann"}`
	first := w.operator("POST /v1/admin", body, "Idempotency-Key", "k").value(t).Key("result")
	assert.True(t, strings.HasPrefix(first.Key("token").String(), `"fmt_`))
	again := w.operator("POST /v1/admin", body, "Idempotency-Key", "k").value(t).Key("result")
	assert.Equal(t, first.Key("token/id").String(), again.Key("token/id").String())
	assert.True(t, again.Key("token").IsNil())
	for _, ms := range []string{"9223372036855", "18446744073710", "18446744160110"} { // beyond 64 bits of nanoseconds
		long := `{"action":"token-create","user":"ann","ttl-ms":` + ms + `}`
		assert.Equal(t, "invalid-request", w.operator("POST /v1/admin", long).failure(t))
	}
	for _, refused := range []string{`{"action":"set-password","user":"ann","password":"three small words"}`, `{"action":"create-user","user":"bob","password":"three small words"}`} {
		assert.Equal(t, "idempotency/invalid-key", w.operator("POST /v1/admin", refused, "Idempotency-Key", "k").failure(t))
	}
	assert.Equal(t, "idempotency/invalid-key", w.operator("POST /v1/session", `{"action":"list"}`, "Idempotency-Key", "k").failure(t))
	assert.Equal(t, "idempotency/invalid-key", w.operator("POST /v1/admin", `{"action":"status"}`, "Idempotency-Key", "two words").failure(t))
}

// HTTP-008: no answer of an action that only reads is kept: it may have what runs have, and
// must not outlive their values. A repeated request reads again.
func TestKeysKeepNothingOfReading(t *testing.T) {
	w := newWorld(t)
	for _, a := range httpapi.Actions() {
		assert.False(t, a.Reads && (a.Later || a.Grants || a.Secret != ""), "%s changes something", a.Name)
	}
	for _, body := range []string{`{"action":"runs-show","run":"last"}`, `{"action":"runs-export","run":"last"}`, `{"action":"plugin-logs","plugin":"x"}`,
		`{"action":"list-users"}`, `{"action":"show-user","user":"ann"}`} {
		w.user("ann")
		for range 2 {
			a := w.operator("POST /v1/admin", body, "Idempotency-Key", "k")
			require.Equal(t, 200, a.status, "%s: %s", body, a.body)
			assert.Empty(t, a.header.Get("Idempotency-Replayed"), body)
			<-w.audited
		}
		require.Equal(t, 200, w.operator("POST /v1/admin", `{"action":"delete-user","user":"ann"}`).status)
		<-w.audited
	}
	assert.Equal(t, "idempotency/invalid-key", w.operator("POST /v1/admin", `{"action":"status"}`, "Idempotency-Key", "two words").failure(t))
}

// HTTP-008: requests at a barrier with one key are executed once, and all get the answer.
// A denied request leaves no key.
func TestKeysOfActionsAtOnce(t *testing.T) {
	w := newWorld(t)
	w.user("root", policy.RoleAdmin)
	w.user("ann")
	root, _ := w.token("root", policy.Narrowing{})
	ann, _ := w.token("ann", policy.Narrowing{})
	as := func(token, body string) answer {
		return w.call("POST /v1/admin", body, "Authorization", token, "Idempotency-Key", "k")
	}
	const callers = 16
	ids := make([]string, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			ids[i] = as(root, `{"action":"create-user","user":"bob"}`).value(t).Key("result").Key("user/id").String()
		})
	}
	all.Wait()
	for _, id := range ids {
		assert.Equal(t, ids[0], id)
	}
	assert.Regexp(t, `^"user/\d+"$`, ids[0])
	assert.Equal(t, 403, as(ann, `{"action":"create-user","user":"eve"}`).status)
	assert.Equal(t, "user/already-exists", w.operator("POST /v1/admin", `{"action":"create-user","user":"bob"}`, "Idempotency-Key", "k").failure(t), "another caller")
}

// HTTP-008: a key whose action has begun in a daemon that ended is not executed again.
func TestKeyOfUnknownOutcome(t *testing.T) {
	w := newWorld(t)
	body := `{"action":"create-user","user":"ann"}`
	w.unended.Store(true)
	require.Equal(t, 503, w.operator("POST /v1/admin", body, "Idempotency-Key", "k").status, "the answer could not be kept")
	w.unended.Store(false)
	assert.Equal(t, "effects/outcome-unknown", w.operator("POST /v1/admin", body, "Idempotency-Key", "k").failure(t))
}

const calibrateX = `{"action":"judge-calibrate","judge":"x"}`

// leaving sends an action of the operator with the key k for a caller that leaves at the
// end of ctx.
func (w *world) leaving(ctx context.Context, body string) (left <-chan error) {
	req, err := http.NewRequestWithContext(ctx, "POST", "http://localhost/v1/admin", strings.NewReader(body))
	require.NoError(w.t, err)
	for name, v := range map[string]string{"Authorization": "Bearer " + token, "Content-Type": "application/json", "Idempotency-Key": "k"} {
		req.Header.Set(name, v)
	}
	out := make(chan error, 1)
	go func() {
		resp, err := w.admin.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		out <- err
	}()
	return out
}

// HTTP-008: an action with a key goes on when its caller leaves, and another request with
// the key waits for it and gets its answer.
func TestKeyOfCallerThatLeaves(t *testing.T) {
	w := newWorld(t)
	begun, release, calls := make(chan struct{}), make(chan struct{}), 0
	w.measure = func(ctx context.Context) *contract.Error {
		calls++
		close(begun)
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return contract.Errorf("canceled", "the caller went away")
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	left := w.leaving(ctx, calibrateX)
	<-begun
	leave()
	require.ErrorIs(t, <-left, context.Canceled)
	again := make(chan answer)
	go func() { again <- w.operator("POST /v1/admin", calibrateX, "Idempotency-Key", "k") }()
	select {
	case a := <-again:
		require.Fail(t, "it did not wait", "%d %s", a.status, a.body)
	case <-time.After(100 * time.Millisecond): // in which the server notices that the caller left
	}
	close(release)
	a := <-again
	assert.Equal(t, 200, a.status, "%s", a.body)
	assert.Equal(t, "true", a.header.Get("Idempotency-Replayed"))
	assert.Equal(t, 1, calls)
}

// HTTP-008: the end of the server cancels an action with a key that goes on too long.
func TestShutdownCutsOffKeyedActions(t *testing.T) {
	w := newWorld(t)
	begun, cut := make(chan struct{}), make(chan struct{})
	w.measure = func(ctx context.Context) *contract.Error {
		close(begun)
		<-ctx.Done()
		close(cut)
		return contract.Errorf("canceled", "the daemon stops")
	}
	left := w.leaving(t.Context(), calibrateX)
	<-begun
	over, end := context.WithCancel(t.Context())
	end()
	w.server.Shutdown(over)
	<-cut
	require.Error(t, <-left, "its connection was closed")
}

// HTTP-008: MemoryAnswers keeps the latest answers.
func TestMemoryAnswers(t *testing.T) {
	var m httpapi.MemoryAnswers
	ctx := t.Context()
	for i := range 1025 {
		known, err := m.Begin(ctx, fmt.Sprint(i), "p")
		require.NoError(t, err)
		require.Nil(t, known)
	}
	known, _ := m.Begin(ctx, "0", "p")
	assert.Nil(t, known, "the oldest one was forgotten")
	known, _ = m.Begin(ctx, "1024", "p")
	assert.NotNil(t, known)
}
