package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// PRM-009: the composed prompt of every intent of the shipped file under every
// role. Use -update after a change.
func TestShippedPrompts(t *testing.T) {
	t.Parallel()
	config, err := os.ReadFile(filepath.Join(built.module, "ferment.hcl"))
	require.NoError(t, err)
	w := newWorld(t, "ferment.hcl", string(config))
	require.NoError(t, os.Symlink(filepath.Join(built.root, "bin"), filepath.Join(w.dir, "bin")))
	require.Equal(t, 0, w.run("plugin", "lock").code)
	got := w.run("prompt", "show", "--all", "--edn")
	require.Equal(t, 0, got.code, got.stderr)
	var all strings.Builder
	roles := map[string]bool{}
	for v := range got.value(t).Elems() {
		intent, role := word(v.Key("intent")), word(v.Key("role"))
		roles[role] = true
		system, _ := v.Key("system").AsString()
		fmt.Fprintf(&all, "== :%s as %s\n%s\n-- output %s\n\n", intent, role, system, v.Key("output").Key("schema"))
	}
	assert.Equal(t, map[string]bool{"coder": true, "judge": true, "router": true, "solver": true, "voice": true}, roles, "PRM-008")
	file := filepath.Join("testdata", "shipped-prompts.txt")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(all.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), all.String(), "look at the difference, then -update")
}

// listening is a model server that records requests.
type listening struct {
	port string
	mu   sync.Mutex
	last []map[string]string
}

func listen(t *testing.T) *listening {
	l := &listening{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Messages []map[string]string `json:"messages"`
		}
		raw, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(raw, &body)
		l.mu.Lock()
		l.last = body.Messages
		l.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Bees dance.\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	require.NoError(t, err)
	l.port = u.Port()
	return l
}

func (l *listening) messages() []map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// speaking returns a plugin block with a model behind the server.
func speaking(name, port string) string {
	return fmt.Sprintf("plugin %q {\n  command = [%q]\n\n  isolation {\n    network = \"loopback\"\n    ports   = [%s]\n  }\n\n  config {\n    provider = \"compatible\"\n    base_url = \"http://127.0.0.1:%s\"\n\n    model \"voice\" {\n      name    = %q\n      intents = [\"text/respond\"]\n    }\n  }\n}\n\ncapability \"%s/voice\" {\n  plugin   = %q\n  provides = \"compatible/voice\"\n}\n\n",
		name, filepath.Join(built.plugins, "llm"), port, port, name+"-model", name, name)
}

const spokenPrompts = `
prompts {
  default = ["You are part of a program.", "Answer in {language}."]
  roles   = { voice = "Speak plainly." }
}

intent "text/respond" {
  in         = "req/text"
  out        = "res/text"
  candidates = ["one/voice", "two/voice"]
}
`

// LM-009, LLM-023, PRM-003, PRM-007: the prompt of the file reaches the model;
// another provider changes nothing else; a caller over the network cannot set
// the system prompt, the owner of the process can; an edited prompt changes
// the package.
func TestPromptsReachTheModel(t *testing.T) {
	t.Parallel()
	server := listen(t)
	text := testProfile + speaking("one", server.port) + speaking("two", server.port)
	w := newWorld(t, "ferment.hcl", text+spokenPrompts)
	s := w.serve()
	defer s.stop()

	ask := func(capability string) edn.Value {
		a := s.request(context.Background(), "POST", "/v1/act", envelopeOf("text/respond", `{:prompt "How do bees talk?"}`, `:cap/id :`+capability+` :context {:agent/id "docs-writer"} :constraints {:language :pl}`))
		require.Equal(t, 200, a.status, "%s", a.body)
		return a.value(t).Key("invoke/meta")
	}
	first := ask("one/voice")
	assert.Equal(t, []map[string]string{
		{"role": "system", "content": "You are part of a program. Answer in Polish.\n\nSpeak plainly."},
		{"role": "user", "content": "How do bees talk?"},
	}, server.messages())
	second, third := ask("two/voice"), ask("one/voice")
	for _, key := range []string{"agent/id", "prompt/hash", "role", "intent"} {
		assert.False(t, first.Key(key).IsNil(), key)
		assert.Equal(t, first.Key(key).String(), second.Key(key).String(), key)
		assert.Equal(t, first.Key(key).String(), third.Key(key).String(), key)
	}
	assert.Equal(t, `"one-model" "two-model" "one-model"`, fmt.Sprint(first.Key("provider").Key("model"), " ", second.Key("provider").Key("model"), " ", third.Key("provider").Key("model")))
	assert.Equal(t, ":voice", first.Key("role").String())

	a := s.request(context.Background(), "POST", "/v1/act", envelopeOf("text/respond", `{:prompt "x"}`, `:system "You are mine."`))
	assert.Equal(t, 403, a.status)
	assert.Equal(t, "policy/blocked", a.failure(t))
	own := w.feed(`{:proto 1 :trace {:id "t"} :task {:intent :text/respond} :input {:prompt "x"} :system "You are mine."}`, "act", "-")
	require.Equal(t, 0, own.code, own.stderr)
	assert.Equal(t, "You are mine.", server.messages()[0]["content"])
	inJSON := w.feed(`
  { "proto":1,"trace":{"id":"t"},"task":{"intent":"text/respond"},"input":{"prompt":"x"},"system":"You are JSON."}`, "act", "-")
	require.Equal(t, 0, inJSON.code, inJSON.stderr)
	assert.Equal(t, "You are JSON.", server.messages()[0]["content"])

	status := func() string {
		hash, _ := s.admin(`{:action :status}`).value(t).Key("result").Key("protocol").AsString()
		require.True(t, strings.HasPrefix(hash, "b3:"))
		return hash
	}
	before := status()
	exported := w.run("protocol", "export", "--edn")
	require.Equal(t, 0, exported.code, exported.stderr)
	assert.Equal(t, edn.Text(before).String(), exported.value(t).Key("hash").String())
	w.write("package.edn", exported.stdout)
	same := w.run("protocol", "diff", "package.edn")
	assert.Equal(t, [2]any{0, "nothing differs\n"}, [2]any{same.code, same.stdout})
	w.write("ferment.hcl", text+strings.Replace(spokenPrompts, "Speak plainly.", "Speak kindly.", 1))
	for _, args := range [][]string{{"protocol", "diff"}, {"protocol", "diff", "package.edn"}} {
		differs := w.run(args...)
		assert.Equal(t, 1, differs.code, differs.stderr)
		assert.Equal(t, "changed  prompts > roles > voice\n  - \"Speak plainly.\"\n  + \"Speak kindly.\"\n1 difference\n", differs.stdout)
	}
	assert.Equal(t, before, status(), "until the file is read again")
	require.Equal(t, 0, w.run("admin", "reload").code)
	assert.NotEqual(t, before, status())
	assert.NotEqual(t, first.Key("prompt/hash").String(), ask("one/voice").Key("prompt/hash").String())
	assert.Contains(t, server.messages()[0]["content"], "Speak kindly.")
}

// PRM-005, CLI-002: output and exit codes of prompt show.
func TestPromptShow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ferment.hcl", testProfile+scripted("mine")+"intent \"a/b\" {\n  in  = \"req/text\"\n  out = \"res/text\"\n}\n\nprompts {\n  default = \"Be brief.\"\n  roles   = { voice = \"Speak.\", judge = \"Grade.\" }\n}\n", "mine.edn", `{:capabilities {:mine/a {:intents #{:a/b} :in-schema :req/text :out-schema :res/text :steps [{:value {:text "x"}}]}}}`)
	got := w.run("prompt", "show", "a/b", "--role", "judge", `{:prompt "x"}`)
	require.Equal(t, 0, got.code, got.stderr)
	assert.Equal(t, ":a/b  role judge (call)\nhash b3:HASH\n\nlayers\n  prompts.default  (ferment.hcl:18:13, b3:HASH)\n  prompts.roles.judge  (ferment.hcl:19:41, b3:HASH)\n\nsystem\n  Be brief.\n\n  Grade.\n\nuser\n  x\n\noutput :res/text\n  [:map [:text [:ref :ferment/text]]]\n",
		hashes(got.stdout))
	v := w.run("prompt", "show", "a/b", "--edn").value(t)
	assert.Equal(t, []string{":voice", ":default"}, []string{v.Key("role").String(), v.Key("role/rule").String()})
	first, _ := v.Key("layers").Nth(0)
	assert.Equal(t, `"Be brief."`, first.Key("text").String())
	explained := w.run("explain", "a/b")
	w.write("package.json", w.run("protocol", "export", "--json").stdout)
	w.write("changed.edn", strings.Replace(w.run("protocol", "export", "--edn").stdout, "Be brief.", "Be long.", 1))
	assert.Contains(t, explained.stdout, "\nprompt of a language model, role voice (default)\n  prompts.default  (ferment.hcl:18:13)\n  prompts.roles.voice  (ferment.hcl:19:23)\n", "HCL-008")
	for _, row := range []struct {
		args string
		code int
		says string
	}{
		{"prompt show a/c", 5, "did you mean a/b?"},
		{"prompt show a/b --role judje", 5, "did you mean judge?"},
		{"prompt show a/b --capability no/one", 5, "there is no capability"},
		{"prompt show", 2, "takes an intent"},
		{"prompt show a/b --all", 2, "--all takes no intent"},
		{"prompt show a/b/c", 2, "is not an intent"},
		{"prompt show a/b [1]", 2, "the input is a map"},
		{"prompt show a/b {:a", 2, "the input is not EDN"},
		{"protocol diff absent.edn", 3, "absent.edn"},
		{"protocol diff mine.edn", 2, "is not a protocol package"},
		{"protocol diff package.json", 2, "is a protocol package in JSON"},
		{"protocol diff changed.edn", 2, "was changed after its export"},
	} {
		got := w.run(strings.Fields(row.args)...)
		assert.Equal(t, row.code, got.code, "%s\n%s", row.args, got.stderr)
		assert.Contains(t, got.stderr, row.says, row.args)
	}
	assert.Contains(t, w.run("prompt", "show", "a/b", "--capability", "mine/a").stdout, "no prompt is composed")
}

// hashes masks the digits of hashes, also of shortened ones.
func hashes(text string) string {
	var b strings.Builder
	for i, part := range strings.Split(text, "b3:") {
		if i > 0 {
			b.WriteString("b3:HASH")
			part = strings.TrimLeft(part, "0123456789abcdef")
		}
		b.WriteString(part)
	}
	return b.String()
}
