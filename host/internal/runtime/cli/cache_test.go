package cli_test

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/edn"
)

// cachedData makes the answers of the intent mine/data cacheable.
const cachedData = `
cache {
  enabled = true
}
intent "mine/data" {
  in          = "req/any"
  out         = "res/any"
  cacheable   = true
  cache_scope = "public"
}
`

// fits checks that no line of a text is wider than a terminal of 100 columns.
func fits(t testing.TB, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), diag.Columns, line)
	}
}

// RUN-030 to RUN-033: a daemon gives an equal request the answer of an earlier one, over
// HTTP and to the command line, which says so. Its run can be shown, replayed and
// compared. A reload that changes how the intent is answered, another program and
// --no-cache execute the request; a reload of anything else keeps the answers.
func TestCache(t *testing.T) {
	t.Parallel()
	w := answering(t, onDisk+cachedData)
	s := w.serve()
	outcome := func() string {
		a := s.ask("mine/data", "{:q 1}")
		require.Equal(t, 200, a.status, "%s", a.body)
		return a.header.Get("Ferment-Cache")
	}
	assert.Equal(t, "miss", outcome())
	assert.Equal(t, "hit", outcome())
	first := w.run("act", "mine/data", "{:q 1}")
	require.Zero(t, first.code, first.stderr)
	assert.Equal(t, "{:list [1 2.5 3M #{:a}] :n 1}\n", first.stdout)
	assert.Contains(t, first.stderr, "from the cache")
	fits(t, first.stderr)
	assert.Equal(t, ":cache", w.data("act", "mine/data", "{:q 1}").Key("usage").Key("mode").String())

	again := w.run("act", "mine/data", "{:q 1}", "--no-cache")
	require.Zero(t, again.code, again.stderr)
	assert.NotContains(t, again.stderr, "from the cache")
	executed := w.listed("run")[0]
	require.Equal(t, "hit", outcome(), "--no-cache has replaced the answer")
	hit := w.listed("run")[0]

	shown := w.run("runs", "show", hit)
	assert.Contains(t, shown.stdout, "the answer is that of "+executed)
	fits(t, shown.stdout)
	replayed := w.run("runs", "replay", hit)
	require.Zero(t, replayed.code, replayed.stderr)
	fits(t, replayed.stdout)
	assert.Equal(t, w.data("runs", "replay", executed).Key("hash").String(), w.data("runs", "replay", hit).Key("hash").String(), "JRN-050")
	filled := w.run("runs", "replay", hit, "--mode", "fill")
	fits(t, filled.stdout)
	assert.Equal(t, 1, filled.code, "its call is made, and differs from none")

	purged := w.run("runs", "purge", executed, "--yes")
	require.Zero(t, purged.code, purged.stderr)
	require.Equal(t, "miss", outcome(), "JRN-061: a purged answer is not served")
	require.Equal(t, "hit", outcome())

	reload := func(old, now string) {
		w.rewrite("ferment.hcl", old, now)
		got := w.run("admin", "reload")
		require.Zero(t, got.code, got.stderr)
	}
	reload("cache {\n", "cache {\n  ttl = \"90s\"\n")
	assert.Equal(t, "hit", outcome(), "another ttl")
	reload("cacheable   = true", "cacheable   = true\n  done {\n    should = [\"json-valid\"]\n  }")
	assert.Equal(t, "miss", outcome(), "another gate")
	reload("done {\n    should = [\"json-valid\"]\n  }", "")
	assert.Equal(t, "hit", outcome(), "the configuration of the answer is back")
	text, err := os.ReadFile(filepath.Join(w.dir, "mine.edn"))
	require.NoError(t, err)
	w.write("mine.edn", strings.Replace(string(text), ":n 1", ":n 7", 1))
	require.Zero(t, w.run("admin", "reload").code)
	require.Eventually(t, func() bool {
		return w.data("act", "mine/data", "{:q 1}").Key("result").Key("out").Key("n").String() == "7"
	},
		20*time.Second, 50*time.Millisecond, "the file that the plugin reads")
	reload("enabled = true", "enabled = false")
	assert.Empty(t, outcome())

	stats := w.data("runs", "stats").Key("cache")
	for _, key := range []string{"hit", "miss"} {
		n, _ := stats.Key(key).AsInt()
		assert.Positive(t, n, key)
	}
}

// RUN-034: acts at the same time share one execution of a real plugin.
func TestCacheSharesExecution(t *testing.T) {
	t.Parallel()
	w := answering(t, onDisk+strings.Replace(cachedData, "mine/data", "mine/slow", 1))
	s := w.serve()
	outcomes := make(chan string, 16)
	for range cap(outcomes) {
		go func() { outcomes <- s.ask("mine/slow", "{}").header.Get("Ferment-Cache") }()
	}
	count := map[string]int{}
	for range cap(outcomes) {
		count[<-outcomes]++
	}
	assert.Equal(t, map[string]int{"miss": 1, "hit": cap(outcomes) - 1}, count)
	assert.Equal(t, "1", w.data("runs", "stats").Key("attempts").Key("total").String())
}

// reader starts a streamed act and returns its run, once an event has arrived; gone ends
// the connection.
func (s *served) reader(intent string, header ...string) (run string, gone func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.address+"/v1/act", strings.NewReader(envelopeOf(intent, "{}", "")))
	require.NoError(s.t, err)
	r.Header.Set("Content-Type", "application/edn")
	r.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := s.client.Do(r)
	require.NoError(s.t, err)
	require.Equal(s.t, 200, resp.StatusCode)
	_, err = bufio.NewReader(resp.Body).ReadString('\n')
	require.NoError(s.t, err)
	return resp.Header.Get("Ferment-Run-Id"), func() { cancel(); _ = resp.Body.Close() }
}

// RUN-007: a streamed run without a reader is canceled after http.stream_orphan_ttl. A
// reader that comes in time keeps it, and with an idempotency key it goes on. A value
// whose caller is gone is canceled at once. Package daemon proves the times.
func TestOrphanedStreams(t *testing.T) {
	t.Parallel()
	w := answering(t, onDisk+"http {\n  stream_orphan_ttl = \"1h\"\n}\n")
	s := w.serve()
	status := func(run string) string {
		return word(s.request(context.Background(), "GET", "/v1/runs/"+run, "").value(t).Key("run").Key("status"))
	}
	left, gone := s.reader("mine/hang")
	keyed, goneKeyed := s.reader("mine/hang", "Idempotency-Key", "k")
	kept, goneKept := s.reader("mine/hang")
	watch := s.watch(t, kept, "")
	watch.until("event: attempt")
	gone()
	goneKeyed()
	goneKept()
	value, stop := context.WithCancel(context.Background())
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		s.request(value, "POST", "/v1/act", envelopeOf("mine/hang", "{}", ""))
	}()
	require.Eventually(t, func() bool { return len(w.listed("run", "--status", "running")) == 4 }, 20*time.Second, 10*time.Millisecond)
	sync := w.listed("run")[0]
	stop()
	<-returned
	require.Eventually(t, func() bool { return status(sync) == "canceled" }, 20*time.Second, 10*time.Millisecond)
	for _, run := range []string{left, keyed, kept} {
		assert.Equal(t, "running", status(run))
	}

	w.rewrite("ferment.hcl", "1h", "0s")
	require.Zero(t, w.run("admin", "reload").code)
	assert.Equal(t, "running", status(left), "its time began under the old setting")
	_ = watch.body.Close()
	require.Eventually(t, func() bool { return status(kept) == "canceled" }, 20*time.Second, 10*time.Millisecond)
	canceled := s.request(context.Background(), "GET", "/v1/runs/"+kept, "").value(t).Key("cancel")
	assert.Equal(t, `"host"`, canceled.Key("by").String())
	assert.Contains(t, canceled.Key("why").String(), "stream_orphan_ttl")
	again := s.watch(t, left, "")
	again.until("event: attempt")
	_ = again.body.Close()
	require.Eventually(t, func() bool { return status(left) == "canceled" }, 20*time.Second, 10*time.Millisecond)
	assert.Equal(t, "running", status(keyed))

	restarted, goneRestarted := s.reader("mine/hang")
	watch = s.watch(t, restarted, "")
	watch.until("event: attempt")
	s.signal(syscall.SIGKILL)
	s.wait()
	goneRestarted()
	s = w.serve()
	require.Eventually(t, func() bool { return status(restarted) == "canceled" }, 20*time.Second, 10*time.Millisecond, "its readers did not come back")
	assert.Equal(t, "running", status(keyed))
}

// One run has a limit of streams: of those that read its events, and of acts with its
// idempotency key. The run goes on.
func TestTooManyReadersOfRun(t *testing.T) {
	t.Parallel()
	w := answering(t, onDisk+"http {\n  limits {\n    run_subscribers = 1\n  }\n}\n")
	s := w.serve()
	run, gone := s.reader("mine/hang", "Idempotency-Key", "k")
	for _, again := range []func() answer{
		func() answer {
			return s.request(context.Background(), "POST", "/v1/act", envelopeOf("mine/hang", "{}", ""), "Idempotency-Key", "k", "Accept", "text/event-stream")
		},
		func() answer {
			return s.request(context.Background(), "GET", "/v1/runs/"+run+"/events", "", "Accept", "*/*")
		},
	} {
		a := again()
		assert.Equal(t, 429, a.status, "%s", a.body)
		assert.Contains(t, string(a.body), "stream/too-many-subscribers")
	}
	gone()
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/v1/runs/"+run+"/events", nil)
		require.NoError(t, err)
		resp, err := s.client.Do(r)
		require.NoError(t, err)
		_ = resp.Body.Close()
		return resp.StatusCode == 200
	}, 20*time.Second, 20*time.Millisecond)
	assert.Equal(t, []string{"running"}, w.listed("status"))
}

// CLI-004: Ctrl-C in act --stream cancels the run at once.
func TestInterruptedStream(t *testing.T) {
	t.Parallel()
	w := answering(t, onDisk)
	w.serve()
	p := w.start("", "act", "mine/hang", `{"n": 1}`, "--stream", "--json")
	require.Eventually(t, func() bool { return len(w.listed("run", "--status", "running")) == 1 }, 20*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool { return strings.Contains(w.run("runs", "show", "last").stdout, "attempt 1") }, 20*time.Second, 10*time.Millisecond)
	p.signal(syscall.SIGINT)
	assert.Equal(t, 130, p.wait().code)
	require.Eventually(t, func() bool { return slices.Equal(w.listed("status"), []string{"canceled"}) }, 20*time.Second, 10*time.Millisecond)
}

// The statistics of a period as text fit a terminal, and are the same values as JSON, as
// EDN and over HTTP.
func TestRunStatistics(t *testing.T) {
	t.Parallel()
	w := answering(t, onDisk)
	s := w.serve()
	for range 3 {
		require.Equal(t, 200, s.ask("mine/data", "{}").status)
	}
	late := w.run("act", "mine/hang", "{}", "--deadline", "100ms")
	require.Equal(t, 7, late.code)
	for _, got := range []ended{late, w.run("runs", "show", "last"), w.run("runs", "watch", "last")} {
		assert.Contains(t, got.stdout+got.stderr, "--deadline")
		assert.NotContains(t, got.stdout+got.stderr, ":deadline-ms")
	}
	v := w.data("runs", "stats", "--since", "1h")
	assert.Equal(t, "{:completed 3 :expired 1}", v.Key("runs").Key("by-status").String())
	assert.Equal(t, "3", v.Key("capabilities").Key("mine/data").Key("by-outcome").Key("ok").String())
	assert.Equal(t, "{:queue/deadline-exceeded 1}", v.Key("failures").String())
	assert.Equal(t, "{:passed 3 :share 1M :verdicts 3}", v.Key("gates").Key("schema-valid").String())
	over := s.request(context.Background(), "GET", "/v1/runs/stats", "")
	require.Equal(t, 200, over.status, "%s", over.body)
	assert.Equal(t, "{:completed 3}", over.value(t).Key("runs").Key("by-status").String(), "AUTH-012: only those of the caller")
	text := w.run("runs", "stats")
	require.Zero(t, text.code, text.stderr)
	fits(t, text.stdout)
	for _, want := range []string{"4 runs since", "status      3 completed", "1 expired", "mine/data", "schema-valid", "queue/deadline-exceeded"} {
		assert.Contains(t, text.stdout, want)
	}
	asJSON, err := edn.ReadJSON([]byte(w.run("runs", "stats", "--json").stdout))
	require.NoError(t, err)
	assert.Equal(t, v.Key("runs").Key("total"), asJSON.Key("runs").Key("total"))
	assert.Contains(t, w.run("runs", "stats", "--since", "2031-01-01").stdout, "no runs since")
	assert.Equal(t, 2, w.run("runs", "stats", "--since", "soon").code)
}
