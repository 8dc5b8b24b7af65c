package cli_test

import (
	"context"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// RUN-020, RUN-022: callers with one key share one run, also across a restart of
// the daemon; the response of a finished run says that it was given before.
func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	w := answering(t, "store {\n  driver = \"sqlite\"\n}\n")
	w.write("mine.edn", `{:capabilities
 {:mine/data {:intents #{:mine/data} :in-schema :req/any :out-schema :res/any :steps [{:value {:n 1}}]}
  :mine/says {:intents #{:text/respond} :in-schema :req/text :out-schema :res/text :steps [{:value {:text "Hello."}}]}
  :mine/slow {:intents #{:mine/slow} :in-schema :req/any :out-schema :res/any :steps [{:delay-ms 700 :value {:n 2}}]}
  :mine/hang {:intents #{:mine/hang} :in-schema :req/any :out-schema :res/any :steps [{:hang true}]}}}`)
	s := w.serve()
	post := func(s *served, intent, input string, header ...string) answer {
		return s.request(context.Background(), "POST", "/v1/act", envelopeOf(intent, input, ""), header...)
	}
	const header = "Idempotency-Key"
	var callers sync.WaitGroup
	answers := make([]answer, 64)
	for i := range answers {
		callers.Go(func() { answers[i] = post(s, "mine/slow", "{}", header, "k-1") })
	}
	callers.Wait()
	run := answers[0].header.Get("Ferment-Run-Id")
	for _, a := range answers {
		require.Equal(t, 200, a.status, "%s", a.body)
		assert.Equal(t, run, a.header.Get("Ferment-Run-Id"))
		assert.Equal(t, string(answers[0].body), string(a.body))
		assert.Empty(t, a.header.Get("Idempotency-Replayed"))
	}
	assert.Equal(t, []string{run}, w.recorded(t, "completed"))

	for name, tc := range map[string]struct {
		header []string
		input  string
		status int
		typ    string
	}{
		"another request": {[]string{header, "k-1"}, "{:n 2}", 422, "idempotency/mismatch"},
		"no key":          {[]string{header, "two words"}, "{}", 400, "idempotency/invalid-key"},
	} {
		a := post(s, "mine/slow", tc.input, tc.header...)
		assert.Equal(t, tc.status, a.status, name)
		assert.Equal(t, tc.typ, a.failure(t), name)
	}
	both := s.request(context.Background(), "POST", "/v1/act", envelopeOf("mine/data", "{}", `:idempotency/key "k-2"`), header, "k-3")
	assert.Equal(t, "idempotency/invalid-key", both.failure(t))
	first := s.request(t.Context(), "POST", "/v1/act", `"Say hello."`, header, "k-5")
	require.Equal(t, 200, first.status, "%s", first.body)
	for _, body := range []string{`"Say hello."`, `{:prompt "Say hello."}`} { // short forms of one request
		a := s.request(t.Context(), "POST", "/v1/act", body, header, "k-5")
		assert.Equal(t, first.header.Get("Ferment-Run-Id"), a.header.Get("Ferment-Run-Id"), "%s", a.body)
		assert.Equal(t, "true", a.header.Get("Idempotency-Replayed"), body)
	}
	s.stop()

	s = w.serve()
	again := post(s, "mine/slow", "{}", header, "k-1")
	require.Equal(t, 200, again.status, "%s", again.body)
	assert.Equal(t, "true", again.header.Get("Idempotency-Replayed"))
	assert.Equal(t, run, again.header.Get("Ferment-Run-Id"))
	assert.Equal(t, string(answers[0].body), string(again.body))

	callers.Go(func() { post(s, "mine/hang", "{:n 3}", header, "k-4") })
	require.Eventually(t, func() bool { return len(w.recorded(t, "running")) == 1 }, runLimit, 20*time.Millisecond)
	cut := w.recorded(t, "running")[0]
	s.signal(syscall.SIGKILL)
	s.wait()
	callers.Wait()
	w.write("mine.edn", `{:capabilities {:mine/hang {:intents #{:mine/hang} :in-schema :req/any :out-schema :res/any :steps [{:value {:n 4}}]}}}`)
	s = w.serve()
	_, _, ok := s.logged(0, said("resumed runs that an earlier daemon had begun"))
	require.True(t, ok)
	a := post(s, "mine/hang", "{:n 3}", header, "k-4")
	require.Equal(t, 200, a.status, "%s", a.body)
	assert.Equal(t, cut, a.header.Get("Ferment-Run-Id"), "the run that the kill has cut")
	require.Zero(t, w.run("runs", "purge", cut, "--yes").code)
	a = post(s, "mine/hang", "{:n 3}", header, "k-4")
	assert.Equal(t, 410, a.status, "JRN-061")
	assert.Equal(t, "replay/values-purged", a.failure(t))
	s.stop()
}

// recorded returns the ids of recorded runs of a status.
func (w *world) recorded(t *testing.T, status string) (ids []string) {
	t.Helper()
	for r := range w.run("runs", "list", "--status", status, "--edn").value(t).Key("runs").Elems() {
		id, _ := r.Key("run").AsString()
		ids = append(ids, id)
	}
	return ids
}
