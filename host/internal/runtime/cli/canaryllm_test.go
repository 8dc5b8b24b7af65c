package cli_test

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The API keys for a model server. No eight bytes of them occur anywhere else.
const (
	parrotKey    = "CANARY~q9Zx4Lm2Tt8Vb6Rk0Ws"
	parrotKeyNew = "CANARY~H5jN1yDd7Pc3Gf9Xe2Q"
)

// heardRun returns a source whose output contains eight bytes of a key, "" if
// none does.
func (e *ear) heardRun(keys ...string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, said := range e.heard {
		where, what, _ := strings.Cut(said, "\x00")
		if at := runOf(what, keys...); at >= 0 {
			return where + ": " + what[max(0, at-200):min(len(what), at+60)]
		}
	}
	return ""
}

// runOf returns the offset of eight bytes of a key in a text, -1 if there are
// none.
func runOf(text string, keys ...string) int {
	for _, key := range keys {
		for i := 0; i+8 <= len(key); i++ {
			if at := strings.Index(text, key[i:i+8]); at >= 0 {
				return at
			}
		}
	}
	return -1
}

// parrot is a model server that returns the key of its caller, or parts of it,
// in every possible place. The name of the model selects the place.
func parrot(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var request struct {
		Model string `json:"model"`
	}
	_ = json.Unmarshal(body, &request)
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	piece, most := key[9:17], key[3:]
	for _, name := range []string{"X-Request-Id", "Retry-After", "Server", "Location", "X-Key"} {
		w.Header().Set(name, piece)
	}
	refuse := func(status int) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"error":{"message":"the key %s (%s...) of %s","code":%q,"type":%q,"param":%q}}`, key, piece, most, piece, most, key)
	}
	say := func(events ...string) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range events {
			_, _ = fmt.Fprintf(w, "data: %s\n\n", e)
		}
	}
	text := fmt.Sprintf(`{"id":%q,"model":%q,"system_fingerprint":%q,"choices":[{"index":0,"delta":{"content":"fine"},"finish_reason":null}]}`, piece, key, key)
	switch request.Model {
	case "says":
		say(text, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, "[DONE]")
	case "in-band":
		say(text, fmt.Sprintf(`{"error":{"message":"no %s","type":%q,"code":%q}}`, most, piece, key))
	case "finish":
		say(text, fmt.Sprintf(`{"choices":[{"index":0,"delta":{},"finish_reason":%q}]}`, piece), "[DONE]")
	case "tool":
		say(fmt.Sprintf(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":%q,"function":{"name":%q,"arguments":"{\"k\":\"%s"}}]},"finish_reason":"tool_calls"}]}`, piece, key, most), "[DONE]")
	case "malformed":
		say(`{"choices":`+key, piece, `{"choices":`+most)
	case "page":
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, "<html><title>Hello %s</title>%s</html>", key, piece)
	case "redirect":
		w.Header().Set("Location", "/"+key)
		w.WriteHeader(http.StatusTemporaryRedirect)
	default:
		status := 500
		_, _ = fmt.Sscanf(request.Model, "status-%d", &status)
		refuse(status)
	}
}

var parroted = []string{"says", "in-band", "finish", "tool", "malformed", "page", "redirect", "status-400", "status-401", "status-404", "status-413", "status-429", "status-500", "status-529"}

// LM-004: the key of a model appears only in the requests to its server,
// whatever the server, a caller or an operator does; the same holds for any
// eight bytes of it.
func TestModelKeysAreNowhere(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	used := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		used[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]++
		mu.Unlock()
		parrot(w, r)
	}))
	t.Cleanup(server.Close)
	w, e := newWorld(t), &ear{}
	w.env = append(w.env, "FERMENT_PROFILE=test")
	w.write("key", parrotKey+"\n")
	require.NoError(t, os.Chmod(filepath.Join(w.dir, "key"), 0o600))
	var models strings.Builder
	for _, name := range parroted {
		fmt.Fprintf(&models, "  model %q {\n    name = %q\n    intents = [\"t/say\", \"t/show\"]\n  }\n", name, name)
	}
	w.write("ferment.hcl", shipped("models", "llm", "isolation {\n  network = \"ports\"\n}", "config {\n  provider = \"openai\"\n  base_url = \""+server.URL+"\"\n  api_key = secret(\"file:key\")\n"+models.String()+"}")+`
intent "t/say" {
  in  = "req/any"
  out = "res/text"
}

intent "t/show" {
  in     = "req/any"
  out    = "res/text"
  stream = "first-token"
}
`)
	run := func(args ...string) ended {
		t.Helper()
		got := w.run(args...)
		e.hear("ferment "+strings.Join(args, " "), got.stdout+got.stderr)
		return got
	}
	for _, args := range [][]string{
		{"validate", "--json"}, {"config", "show", "--defaults", "--origins"}, {"config", "show", "--edn"}, {"config", "show", "--inputs"}, {"config", "docs", "--plugin", "models"},
		{"plugin", "list", "--edn"}, {"plugin", "inspect", "models"}, {"plugin", "inspect", "models", "--edn"}, {"plugin", "lock"}, {"doctor"}, {"explain", "t/say"},
	} {
		got := run(args...)
		assert.Equal(t, 0, got.code, "%v: %s", args, got.stderr)
	}
	plan := func(name, intent string) string {
		return w.write(intent[2:]+"-"+name+".edn", fmt.Sprintf(`{:nodes [{:op :call :intent :%s :input {:prompt "x" :tools [{:tool/id :t/tool}]} :dispatch {:candidates [:openai/%s]} :as :said} {:op :emit :input {:final :said}}]}`, intent, name))
	}
	everywhere := []string{"--transcript"}
	run(append([]string{"run", plan("status-401", "t/say"), "--edn", "--report", "--progress", "edn"}, everywhere...)...) // in a process of its own

	s := w.serve()
	e.process(t, s.pid, "the daemon")
	e.process(t, s.pidOf("models"), "the models")
	for _, name := range parroted {
		got := run(append([]string{"run", plan(name, "t/say"), "-o", "edn"}, everywhere...)...)
		assert.Equal(t, name == "says", got.code == 0, "%s: %s%s", name, got.stdout, got.stderr)
		run("run", plan(name, "t/show"), "--stream")
		run("run", plan(name, "t/show"), "--stream", "--json", "--transcript")
		for _, form := range []string{"application/edn", "application/json", "text/event-stream"} {
			a := s.request(t.Context(), "POST", "/v1/act", fmt.Sprintf(`{:proto 1 :trace {:id "t"} :task {:intent :t/show :dispatch {:candidates [:openai/%s]}} :input {:prompt "x"} :debug/transcript? true :debug/plan? true}`, name), "Accept", form)
			require.NoError(t, a.err)
			e.hear("the answer of "+name+" as "+form, fmt.Sprint(a.header)+string(a.body))
		}
	}
	for _, action := range []string{
		"{:action :status}", "{:action :plugin-list}", `{:action :plugin-inspect :plugin "models"}`, `{:action :plugin-logs :plugin "models"}`, "{:action :config-show :defaults? true :origins? true :text? true}",
	} {
		e.hear(action, string(s.admin(action).body))
	}
	w.write("key.new", parrotKeyNew+"\n")
	require.NoError(t, os.Chmod(filepath.Join(w.dir, "key.new"), 0o600))
	require.NoError(t, os.Rename(filepath.Join(w.dir, "key.new"), filepath.Join(w.dir, "key")))
	run("diff")
	got := run("admin", "reload", "--edn")
	require.Equal(t, 0, got.code, got.stderr)
	for _, name := range []string{"status-401", "says"} {
		run(append([]string{"run", plan(name, "t/say"), "-o", "edn"}, everywhere...)...)
	}
	run("plugin", "logs", "models", "--lines", "10000", "--edn")
	end := s.stop()
	e.hear("the log of the daemon", end.stdout+end.stderr)

	mu.Lock()
	assert.Greater(t, used[parrotKey], 50, "the server has the key: %v", used)
	assert.Equal(t, 2, used[parrotKeyNew], "and the next one: %v", used)
	assert.Len(t, used, 2)
	mu.Unlock()
	assert.Empty(t, e.heardRun(parrotKey, parrotKeyNew))
	files := 0
	for _, dir := range []string{w.dir, w.rt, built.home} {
		_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() || path == filepath.Join(w.dir, "key") {
				return nil //nolint:nilerr // other tests change this directory concurrently
			}
			if text, err := os.ReadFile(path); err == nil {
				files++
				assert.Negative(t, runOf(string(text), parrotKey, parrotKeyNew), path)
			}
			return nil
		})
	}
	assert.Greater(t, files, 5)
	assert.Empty(t, w.left(endLimit))
}
