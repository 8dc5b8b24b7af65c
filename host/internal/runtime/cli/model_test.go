package cli_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// modelServer is a server with the OpenAI interface that supports everything,
// and schemas only if it is strict. It counts requests.
func modelServer(t *testing.T, strict bool) (port string, asked *atomic.Int64) {
	asked = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		body, _ := io.ReadAll(r.Body)
		text := string(body)
		if !strings.Contains(r.Header.Get("Authorization"), modelKey) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":{"message":"no such key"}}`)
			return
		}
		if strings.Contains(text, `"stream":false`) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"model":"served","choices":[{"index":0,"message":{"role":"assistant","content":"Hello."},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3}}`)
			return
		}
		delta, finish := `{"content":"Hello."}`, "stop"
		switch {
		case strings.Contains(text, `"response_format"`) && strict:
			delta = `{"content":"{\"legs\":4}"}`
		case strings.Contains(text, `"tools"`):
			delta, finish = `{"tool_calls":[{"index":0,"id":"t","function":{"name":"weather","arguments":"{\"city\":\"Oslo\"}"}}]}`, "tool_calls"
		case strings.Contains(text, `"max_tokens":16`):
			finish = "length"
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "data: {\"model\":\"served\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":null}]}\n\n", delta)
		_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":%q}]}\n\n", finish)
		_, _ = io.WriteString(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3}}\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	require.NoError(t, err)
	return u.Port(), asked
}

const modelKey = "sk-CANARY-0123456789abcdef"

// modelBlock returns a plugin block of a compatible server.
func modelBlock(name, port string) string {
	return fmt.Sprintf(`plugin %q {
  command = [%q]

  isolation {
    network = "loopback"
    ports   = [%s]
  }

  config {
    provider = "compatible"
    preset   = "vllm"
    base_url = "http://127.0.0.1:%s/v1"
    api_key  = secret("env:MODEL_KEY")

    model "voice" {
      name = "sample"

      price {
        input  = "1"
        output = "2"
      }
    }
  }
}
`, name, filepath.Join(built.plugins, "llm"), port, port)
}

// LLM-006: the probe goes through the plugin and reports differences, costs,
// and requests that are not possible.
func TestModelProbe(t *testing.T) {
	t.Parallel()
	port, asked := modelServer(t, true)
	w := newWorld(t, "ferment.hcl", testProfile+modelBlock("mine", port))
	w.env = append(w.env, "MODEL_KEY="+modelKey)

	got := w.run("model", "probe", "compatible/voice")
	require.Equal(t, 0, got.code, "%s%s", got.stdout, got.stderr)
	assert.EqualValues(t, 5, asked.Load(), "LLM-006")
	assert.Contains(t, got.stdout, "nothing differs")
	assert.Contains(t, got.stdout, "cost 45 tokens in, 15 out, 0.000075M USD (exact)")
	assert.Regexp(t, `(?m)^count \d+ tokens in the first request by length, the server stated 9$`, got.stdout, "LLM-022")
	assert.Contains(t, got.stdout, "model sample (served by served), preset vllm")
	assert.NotContains(t, got.stdout+got.stderr, "CANARY", "LM-004")

	got = w.run("model", "probe", ":compatible/voice", "--edn")
	require.Equal(t, 0, got.code, got.stderr)
	v := got.value(t)
	assert.True(t, v.Key("agrees?").Truthy())
	assert.Equal(t, 5, v.Key("checks").Len())
	assert.Equal(t, "0.000075M", v.Key("usage").Key("cost-usd").String())

	got = w.run("model", "probe", "compatible/nobody")
	assert.Equal(t, 5, got.code)
	assert.Contains(t, got.stderr, "error: there is no capability :compatible/nobody\n")
	assert.NotContains(t, got.stderr, "CHECK", "nobody wrote a plan")
	plain := newWorld(t, "ferment.hcl", testProfile+"plugin \"text\" {\n  command = [\""+filepath.Join(built.plugins, "text")+"\"]\n}\n")
	got = plain.run("model", "probe", "text/template")
	assert.Equal(t, 1, got.code)
	assert.Contains(t, got.stderr, "error: :text/template is not a model with a server: its plugin does not serve :model/probe\n")
	got = plain.run("model", "probe", "text/template", "--edn")
	assert.Equal(t, ":unsupported/intent", got.value(t).Key("error").Key("type").String())
	got = w.run("model", "probe", "voice")
	assert.Equal(t, 2, got.code)
	assert.Contains(t, got.stderr, "NS/NAME")
	assert.EqualValues(t, 10, asked.Load(), "a name that nobody has asks nobody")

	w.env[len(w.env)-1] = "MODEL_KEY=wrong-key-of-somebody"
	got = w.run("model", "probe", "compatible/voice", "--json")
	assert.NotEqual(t, 0, got.code)
	assert.Contains(t, got.stdout, "provider/auth-failed")
	assert.EqualValues(t, 11, asked.Load(), "once: what costs money is not tried again")

	w.env[len(w.env)-1] = "MODEL_KEY=" + modelKey
	w.write("ferment.hcl", testProfile+modelBlock("mine", port)+`
capability "llm/voice" {
  plugin   = "mine"
  provides = "compatible/voice"
}
`)
	examples := examplesOf(t, w, "model probe")
	require.Len(t, examples, 2)
	for _, line := range examples {
		got := w.shell(line)
		assert.Equal(t, 0, got.code, "%s\n%s", line, got.stderr)
	}
}

// LLM-006: a request that the server fails shows no difference, and gives exit 1.
func TestModelProbeFails(t *testing.T) {
	t.Parallel()
	port, _ := modelServer(t, true)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"tools"`) {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "127.0.0.1:" + port}).ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	require.NoError(t, err)
	w := newWorld(t, "ferment.hcl", testProfile+modelBlock("mine", u.Port()))
	w.env = append(w.env, "MODEL_KEY="+modelKey)
	got := w.run("model", "probe", "compatible/voice")
	assert.Equal(t, 1, got.code, got.stderr)
	assert.Regexp(t, `(?m)^:?tools +failed +:?provider/error`, got.stdout)
	assert.NotContains(t, got.stdout, "quirk")
	assert.NotContains(t, got.stdout, "differs")
}

// LLM-006: a server that differs gives exit 1, also through a daemon.
func TestModelProbeDiffers(t *testing.T) {
	t.Parallel()
	port, asked := modelServer(t, false)
	w := newWorld(t, "ferment.hcl", testProfile+modelBlock("mine", port))
	w.env = append(w.env, "MODEL_KEY="+modelKey)
	s := w.serve()
	got := w.run("model", "probe", "compatible/voice")
	assert.Equal(t, 1, got.code, got.stderr)
	assert.Contains(t, got.stdout, "quirk response_format: declared json_schema, found none")
	assert.EqualValues(t, 5, asked.Load())
	s.stop()
}

// doctor reports the models and what they lack, at no cost.
func TestDoctorLooksAtModels(t *testing.T) {
	t.Parallel()
	port, asked := modelServer(t, true)
	w := newWorld(t, "ferment.hcl", testProfile+modelBlock("mine", port))
	w.env = append(w.env, "MODEL_KEY="+modelKey)
	models := func(want int) string {
		got := w.run("doctor")
		assert.Equal(t, want, got.code, got.stdout+got.stderr)
		assert.NotContains(t, got.stdout+got.stderr, "CANARY", "LM-004")
		_, rest, found := strings.Cut(got.stdout, "\nmodels")
		assert.True(t, found, got.stdout)
		rest, _, _ = strings.Cut(rest, "\nsockets")
		return strings.Join(strings.Fields(rest), " ") // a long text is wrapped
	}
	assert.Regexp(t, `mine +ok +compatible/voice: it is configured, and its server is reachable`, models(0))
	s := w.serve()
	assert.Regexp(t, `mine +ok `, models(0), "a daemon is asked")
	s.stop()

	down, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody := fmt.Sprint(down.Addr().(*net.TCPAddr).Port)
	require.NoError(t, down.Close())
	w.write("ferment.hcl", testProfile+modelBlock("mine", nobody))
	assert.Regexp(t, `mine +weak +compatible/voice: .*:provider/unavailable: no connection: .*refused`, models(0))

	keyless := strings.ReplaceAll(modelBlock("mine", port), `provider = "compatible"
    preset   = "vllm"`, `provider = "openai"`)
	keyless = strings.ReplaceAll(keyless, "    api_key  = secret(\"env:MODEL_KEY\")\n", "")
	w.write("ferment.hcl", testProfile+keyless)
	assert.Regexp(t, `mine +fails +openai/voice: .*:provider/not-configured: no key is configured`, models(1))
	assert.Zero(t, asked.Load(), "nothing was spent")
}
