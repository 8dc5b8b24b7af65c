package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// runEvent is one server-sent event; its text is that of the lines of the event.
type runEvent struct{ id, name, text string }

// watcher reads the events of a run.
type watcher struct {
	t     *testing.T
	body  io.ReadCloser
	lines *bufio.Reader
	seen  []runEvent
}

// watch requests the events of a run after a cursor.
func (s *served) watch(t *testing.T, run, cursor string) *watcher {
	t.Helper()
	return s.stream(t, http.MethodGet, "/v1/runs/"+run+"/events", "", "Last-Event-ID", cursor)
}

// stream requests events.
func (s *served) stream(t *testing.T, method, path, body string, header ...string) *watcher {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runLimit)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, "http://"+s.address+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Content-Type", "application/edn")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := s.client.Do(r)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	return &watcher{t: t, body: resp.Body, lines: bufio.NewReader(resp.Body)}
}

// until reads events up to the first that contains all parts; without parts, to the
// end of the stream.
func (w *watcher) until(parts ...string) {
	w.t.Helper()
	var e runEvent
	for {
		line, err := w.lines.ReadString('\n')
		if err != nil {
			_ = w.body.Close()
			require.Empty(w.t, parts, "the stream ends: %v\n%v", err, w.seen)
			return
		}
		switch key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); {
		case line == "\n" && e.name != "":
			w.seen = append(w.seen, e)
			if len(parts) > 0 && !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(e.text, p) }) {
				return
			}
			e = runEvent{}
		case key == "id":
			e.id = value
		case key == "event":
			e.name = value
		}
		e.text += line
	}
}

func (w *watcher) last() runEvent { return w.seen[len(w.seen)-1] }

// RUN-041, RUN-044, OPS-004: a stream of events is read across a shutdown and a
// crash of the daemon. With the last cursor it goes on in the run that the next
// daemon resumes, and each event is shown once. RUN-013: a run is canceled over
// HTTP, and the answer waits for its end. AUTH-012: the run of another caller does
// not exist.
func TestRunEventsAcrossRestarts(t *testing.T) {
	t.Parallel()
	w := answering(t, onDisk)
	text, err := os.ReadFile(filepath.Join(w.dir, "ferment.hcl"))
	require.NoError(t, err)
	w.write("ferment.hcl", strings.Replace(string(text), "profile = \"test\"", "profile = \"test\"\n  drain_timeout = \"200ms\"", 1))
	s := w.serve()
	get := func(path string) answer { return s.request(context.Background(), "GET", path, "") }
	go s.ask("plan/run", `{:plan {:nodes [
 {:op :call :intent :mine/data :input {} :as :a} {:op :call :intent :mine/hang :input {:n {:slot/path [:a :n]}} :as :b} {:op :emit :input :b}]}}`)
	running := func() []string {
		var ids []string
		for r := range get("/v1/runs?status=running").value(t).Key("runs").Elems() {
			id, _ := r.Key("run").AsString()
			ids = append(ids, id)
		}
		return ids
	}
	require.Eventually(t, func() bool { return len(running()) == 1 }, runLimit, 5*time.Millisecond)
	run := running()[0]

	first := s.watch(t, run, "")
	first.until("event: attempt", "started", "mine/hang")
	s.signal(syscall.SIGTERM)
	first.until("event: shutdown")
	assert.Contains(t, first.last().text, "retry: 3000\n")
	assert.Empty(t, first.last().id)
	first.until()
	first.seen = first.seen[:len(first.seen)-1]
	require.Equal(t, 0, s.wait().code)

	s = w.serve()
	second := s.watch(t, run, first.last().id)
	second.until("event: attempt", "started", "mine/hang")
	s.signal(syscall.SIGKILL)
	s.wait()
	second.until()

	s = w.serve()
	third := s.watch(t, run, second.last().id)
	third.until("event: attempt", "started", "mine/hang")
	canceled := s.request(context.Background(), "POST", "/v1/runs/"+run+"/cancel?wait=20000&why=enough", "")
	require.Equal(t, 200, canceled.status, "%s", canceled.body)
	assert.Equal(t, "canceled", word(canceled.value(t).Key("status")))
	assert.True(t, canceled.value(t).Key("cancel/accepted?").Truthy())
	third.until()
	assert.Equal(t, "finished", third.last().name)
	again := s.request(context.Background(), "POST", "/v1/runs/"+run+"/cancel", "").value(t)
	assert.False(t, again.Key("cancel/accepted?").Truthy(), "RUN-014")
	assert.Equal(t, "canceled", word(again.Key("status")))
	final := s.request(context.Background(), "GET", "/v1/runs/"+run+"/events", "", "Accept", "*/*", "Last-Event-ID", third.last().id)
	assert.Equal(t, 204, final.status)

	whole := s.watch(t, run, "")
	whole.until()
	strip := func(events []runEvent) (out []string) { // the first event of a stream has its retry time
		for _, e := range events {
			out = append(out, strings.TrimPrefix(strings.TrimPrefix(e.text, "retry: 1000\n"), "\n"))
		}
		return out
	}
	assert.Equal(t, strip(whole.seen), strip(append(append(first.seen, second.seen...), third.seen...)))
	shown := get("/v1/runs/" + run).value(t)
	assert.Equal(t, 3, shown.Key("epochs").Len())
	assert.Equal(t, `"enough"`, shown.Key("cancel").Key("why").String())

	s.asDocumented(t, run)
	require.Equal(t, 0, w.run("act", "mine/data", "{}").code)
	other := w.listed("run", "--limit", "1")[0]
	assert.Len(t, w.listed("run"), 2, "an operator has both")
	assert.Equal(t, 1, get("/v1/runs").value(t).Key("runs").Len())
	for _, path := range []string{"", "/records", "/events", "/verify"} {
		a := s.request(context.Background(), "GET", "/v1/runs/"+other+path, "", "Accept", "application/edn, text/event-stream")
		assert.Equal(t, 404, a.status, path)
		assert.Equal(t, "run/not-found", a.failure(t), path)
	}
	s.stop()
}

// asDocumented compares answers about a run with the OpenAPI document (HTTP-001).
func (s *served) asDocumented(t *testing.T, run string) {
	t.Helper()
	get := func(path string) any {
		a := s.request(context.Background(), "GET", path, "", "Accept", "application/json")
		require.Equal(t, 200, a.status, "%s: %s", path, a.body)
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.body))
		require.NoError(t, err)
		return v
	}
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("mem:///openapi", get("/openapi.json")))
	for path, name := range map[string]string{
		"/v1/runs":                                 "runs",
		"/v1/runs?limit=1":                         "runs",
		"/v1/runs/" + run:                          "run",
		"/v1/runs/" + run + "/records":             "records",
		"/v1/runs/" + run + "/records?values=true": "records",
		"/v1/runs/" + run + "/verify":              "verified",
	} {
		schema, err := compiler.Compile("mem:///openapi#/components/schemas/answer." + name)
		require.NoError(t, err)
		assert.NoError(t, schema.Validate(get(path)), path)
	}
}
