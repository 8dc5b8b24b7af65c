package host_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// modelProgram is the model server that plugin mlx of the shipped file starts. In
// the tests of this package the test binary is that program.
const modelProgram = "mlx_lm.server"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == modelProgram {
		serveModel(os.Args[1:])
	}
	os.Exit(m.Run())
}

// serveModel serves the model spare under the address that the arguments name.
func serveModel(args []string) {
	port := slices.Index(args, "--port")
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.Handle("POST /v1/chat/completions", model("spare"))
	fmt.Fprintln(os.Stderr, http.ListenAndServe("127.0.0.1:"+args[port+1], mux))
	os.Exit(1)
}

// order is what a request says about how it is to be answered: the intent, and
// the model that fails with the fault. It stands in the text of the request.
var order = regexp.MustCompile(`\[\[(\S+) (\S+) (\S+)\]\]`)

// tells is in the prompt of a voice.
const tells = "A person reads your answer."

// A judge draws the code and the answer to the control question for each request.
var (
	verdictCode    = regexp.MustCompile(`{\\"verdict\\": \\"(\w+)\\"`)
	verdictControl = regexp.MustCompile(`the score is ([0-9.]+)\.\\n`)
)

// drawn puts what the request drew into an answer.
func drawn(answer string, request []byte) string {
	for name, pattern := range map[string]*regexp.Regexp{"CODE": verdictCode, "CONTROL": verdictControl} {
		if m := pattern.FindSubmatch(request); m != nil {
			answer = strings.ReplaceAll(answer, name, string(m[1]))
		}
	}
	return answer
}

// maxChars is the largest max_chars of the shipped file.
const maxChars = 12_000

// everyModel in an order stands for all models.
const everyModel = "every"

// tooLong are the answers of servers to a request above the context window: with a
// code, and with a message alone (google-gemini/gemini-cli, issue 6678;
// huggingface/llm-vscode, issue 94).
var tooLong = map[string]struct {
	status int
	body   string
}{
	"long": {http.StatusBadRequest, `{"error":{"code":"context_length_exceeded","message":"too long"}}`},
	"long-gemini": {http.StatusBadRequest, `[{"error":{"code":400,"status":"INVALID_ARGUMENT",` +
		`"message":"The input token count (1200293) exceeds the maximum number of tokens allowed (1048576)."}}]`},
	"long-tgi": {http.StatusUnprocessableEntity, `{"error_type":"validation","error":"Input validation error: ` +
		"`inputs` tokens + `max_new_tokens` must be <= 2048. Given: 3474 `inputs` tokens and 60 `max_new_tokens`" + `"}`},
}

// model is a server that speaks openai-chat. It answers as the order in the last
// message says, and everything else with one sentence.
func model(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		intent, fault := "", ""
		if m := order.FindSubmatch(body); m != nil {
			intent = string(m[1])
			if who := string(m[2]); who == name || who == everyModel {
				fault = string(m[3])
			}
			if intent == "problem/solve" && bytes.Contains(body, []byte(tells)) {
				intent, fault = "text/respond", "" // the voice of its plan
			}
		}
		text, finish := drawn(goodAnswers[intent], body), "stop"
		switch fault {
		case "down":
			panic(http.ErrAbortHandler) // the connection ends without an answer
		case "500":
			http.Error(w, `{"error":{"message":"internal"}}`, http.StatusInternalServerError)
			return
		case "long", "long-gemini", "long-tgi":
			http.Error(w, tooLong[fault].body, tooLong[fault].status)
			return
		case "empty":
			text = ""
		case "invalid":
			text = `{"unknown": true}`
		case "refused":
			text = drawn(badAnswers[intent], body)
		case "cut":
			text, finish = text[:len(text)/2], "length"
		case "cut-long": // longer than each max_chars
			text, finish = strings.Repeat(text+"\n", maxChars/len(text)+1)+text[:len(text)/2], "length"
		}
		if !strings.Contains(string(body), `"stream":true`) { // plugin mlx asks so whether the server is ready
			_, _ = io.WriteString(w, `{"id":"c-1","choices":[{"index":0,"message":{"role":"assistant","content":"Yes."},"finish_reason":"length"}]}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		if fault == "broken" || fault == "holed" { // the stream ends, or an event of it cannot be read
			half := map[string]any{"index": 0, "delta": map[string]any{"role": "assistant", "content": text[:len(text)/2]}}
			line, _ := json.Marshal(map[string]any{"id": "c-1", "model": name, "choices": []any{half}})
			_, _ = fmt.Fprintf(w, "data: %s\n\n", line)
			if fault == "broken" {
				return
			}
			_, _ = fmt.Fprintf(w, "data: %s\n\n", line[:len(line)/2])
			text = "."
		}
		for _, event := range []map[string]any{
			{"delta": map[string]any{"role": "assistant", "content": cmp.Or(text, map[bool]string{true: "", false: "Yes."}[fault == "empty"])}},
			{"delta": map[string]any{}, "finish_reason": finish},
		} {
			event["index"] = 0
			line, _ := json.Marshal(map[string]any{"id": "c-1", "model": name, "choices": []any{event}})
			_, _ = fmt.Fprintf(w, "data: %s\n\n", line)
		}
		_, _ = io.WriteString(w, "data: {\"id\":\"c-1\",\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3}}\n\ndata: [DONE]\n\n")
	}
}

// goodAnswers pass the gates of their intents.
var goodAnswers = map[string]string{
	"text/respond":      "The tide comes in twice a day. It follows the moon.",
	"context/summarize": "The tide follows the moon.",
	"problem/solve":     `{"answer": "The tide follows the moon, so it comes in twice a day."}`,
	"code/generate":     "package tide\n\nfunc Twice(n int) int { return 2 * n }\n",
	"code/patch":        patch("exit 1"),
	"eval/grade":        verdict("CONTROL"),
	"code/explain":      "The function doubles its argument. Callers use it for the tides of a day.",
	"code/review":       "I found no fault in the function.",
	"route/decide":      `{"cap/id": "text/classifier"}`,
	"model/chat":        "The tide follows the moon.",
	"agent/run":         "The tide follows the moon.",
}

// badAnswers are refused by a gate of their intent.
var badAnswers = map[string]string{
	"text/respond":      "- the moon\n- the tide\n- and",
	"context/summarize": "- 17 moons\n- 18 tides",
	"problem/solve":     `{"answer": "The tide follows the moon, and"}`,
	"code/generate":     "package p\n\nimport \"strings\"\n\nvar x = strings.Reverse(\"y\")\n",
	"code/patch":        patch("exit 7"),
	"eval/grade":        verdict("10"), // the control question asks for a low score
	"code/explain":      "It calls this:\n\n```go\nx := strings.Reverse(y)\n```",
	"code/review":       "Write this:\n\n```go\nx := strings.Reverse(y)\n```",
}

// tree is a suite that fails until the good answer of code/patch is applied to it.
var tree = map[string]string{"tide.sh": "exit 1\n"}

// patch is a change to the tree, which applies if the line is the one that it has.
func patch(line string) string {
	return "--- a/tide.sh\n+++ b/tide.sh\n@@ -1 +1 @@\n-" + line + "\n+exit 0\n"
}

// verdict is what a model answers to a judge with the rubric of these tests.
func verdict(control string) string {
	return `{"verdict": "CODE", "criteria": {"true": {"reason": "It is known.", "score": 9}, ` +
		`"attention-check": {"reason": "As asked.", "score": ` + control + `}}}`
}

// shippedHost is a daemon that runs the shipped ferment.hcl with an account of
// openai, and with the spare model of plugin mlx if the environment names one.
type shippedHost struct {
	t       *testing.T
	dir     string
	env     []string
	address string
	policy  string // of requests; empty: as shipped
}

// with is the host for a subtest.
func (h *shippedHost) with(t *testing.T) *shippedHost {
	sub := *h
	sub.t = t
	return &sub
}

func newShippedHost(t *testing.T, env ...string) *shippedHost {
	t.Helper()
	r := newReader(t)
	openai := httptest.NewServer(model("first"))
	t.Cleanup(openai.Close)
	path := filepath.Join(r.dir, "ferment.hcl")
	shipped, err := os.ReadFile(path)
	require.NoError(t, err)
	text := strings.Replace(string(shipped), `    provider   = "openai"`, "    provider   = \"openai\"\n    base_url   = \""+openai.URL+"\"", 1)
	text = strings.Replace(text, `"bin/ferment.lock.hcl"`, `"shipped.lock.hcl"`, 1) // the ports of the account are others here
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	for _, dir := range []string{"programs", "var/mlx", ".cache/huggingface"} {
		require.NoError(t, os.MkdirAll(filepath.Join(r.dir, dir), 0o700))
	}
	require.NoError(t, os.Mkdir(filepath.Join(r.dir, "tree"), 0o700))
	for name, text := range tree {
		require.NoError(t, os.WriteFile(filepath.Join(r.dir, "tree", name), []byte(text), 0o600))
	}
	self, err := os.Executable()
	require.NoError(t, err)
	program, err := os.ReadFile(self)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "programs", modelProgram), program, 0o755))

	h := &shippedHost{t: t, dir: r.dir, env: append(env,
		"HOME="+r.dir, "PATH="+filepath.Join(r.dir, "programs")+":"+os.Getenv("PATH"), "FERMENT_PROFILE=test",
		"OPENAI_API_KEY=sk-of-the-test")}
	cmd := exec.Command("bin/ferment", "serve")
	cmd.Dir, cmd.Env = h.dir, h.env
	log, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	ready, over := make(chan string, 1), make(chan struct{})
	var said bytes.Buffer
	go func() {
		defer close(over)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			said.Write(append(lines.Bytes(), '\n'))
			var line struct {
				Message string   `json:"@message"`
				Listen  []string `json:"listen"`
			}
			if json.Unmarshal(lines.Bytes(), &line) != nil || line.Message != "ready" {
				continue
			}
			for _, address := range line.Listen {
				if !strings.HasPrefix(address, "/") {
					ready <- address
					break
				}
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
		<-over
		assert.NoError(t, cmd.Wait(), said.String())
		late.Stop()
	})
	select {
	case h.address = <-ready:
	case <-over:
		t.Fatalf("the daemon does not get ready:\n%s", said.String())
	}
	return h
}

// ferment runs a command on the daemon and returns what it prints.
func (h *shippedHost) ferment(args ...string) string {
	h.t.Helper()
	cmd := exec.Command("bin/ferment", args...)
	cmd.Dir, cmd.Env = h.dir, h.env
	out, err := cmd.CombinedOutput()
	require.NoError(h.t, err, "%s", out)
	return string(out)
}

// ask sends a request for an intent to the daemon.
func (h *shippedHost) ask(intent, model, fault string) edn.Value {
	h.t.Helper()
	said := fmt.Sprintf("Why does the tide follow the moon? [[%s %s %s]]", intent, model, fault)
	input := map[string]string{
		"text/respond":      fmt.Sprintf(`{:prompt %q}`, said),
		"context/summarize": fmt.Sprintf(`{:text %q}`, "The tide follows the moon. The moon is far away. "+said),
		"route/decide":      fmt.Sprintf(`{:request {:task {:intent :sat/solve} :text %q}}`, said),
		"model/chat":        fmt.Sprintf(`{:messages [{:role :user :content %q}]}`, said),
		"agent/run":         fmt.Sprintf(`{:messages [{:role :user :content %q}]}`, said),
		"route/classify":    fmt.Sprintf(`{:text %q}`, said),
		"text/render":       fmt.Sprintf(`{:template "{{said}}" :data {:said %q}}`, said),
		"chess/best-move":   `{:fen "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1" :depth 1}`,
		"sat/solve":         `{:clauses [[1 -2] [2]]}`,
		"code/patch":        fmt.Sprintf(`{:task %q :dir %q :command ["sh" "tide.sh"]}`, said, filepath.Join(h.dir, "tree")),
		"eval/grade": fmt.Sprintf(`{:task/call {:input {:text %q}} :task/result {:out {:text "The moon draws the water."}}
		  :rubric {:scale [0 10] :criteria [{:id :true :ask "Is it true?"}] :rules [{:rule :terms :all ["moon"]}]}}`, said),
	}[intent]
	if input == "" {
		input = fmt.Sprintf(`{:task %q}`, said)
	}
	body := fmt.Sprintf(`{:proto 1 :trace {:id "shipped"} :debug/transcript? true
	  :task {:intent :%s :dispatch {%s :exclude #{:chess/stockfish}}} :input %s}`, intent, h.policy, input)
	ctx, cancel := context.WithTimeout(h.t.Context(), 2*time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+h.address+"/v1/act?format=edn", strings.NewReader(body))
	require.NoError(h.t, err)
	r.Header.Set("Content-Type", "application/edn")
	r.Header.Set("Accept", "application/edn")
	resp, err := http.DefaultClient.Do(r)
	require.NoError(h.t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(h.t, err)
	v, err := edn.Read(text)
	require.NoError(h.t, err, "%s", text)
	return v
}

// server is what made the answer: the model that a judge asked, the solver of a plan, or the
// capability itself.
func server(response edn.Value) string {
	if asked := response.Key("result").Key("out").Key("judge").Key("cap/id"); !asked.IsNil() {
		return asked.String()
	}
	for attempt := range response.Key("transcript").Elems() { // of a plan
		if as, _ := attempt.Key("as").AsKeyword(); as == "solver" && attempt.Key("failure/type").IsNil() {
			return attempt.Key("cap/id").String()
		}
	}
	return response.Key("invoke/meta").Key("cap/id").String()
}

// failures are the types of the attempts that failed, in their order.
func failures(response edn.Value) (types []string) {
	for attempt := range response.Key("transcript").Elems() {
		if name, failed := attempt.Key("failure/type").AsKeyword(); failed {
			types = append(types, attempt.Key("cap/id").String()+" "+name)
		}
	}
	return types
}

// countOf returns the number of failures of a capability.
func countOf(failures []string, id string) (n int) {
	for _, f := range failures {
		if strings.HasPrefix(f, id+" ") {
			n++
		}
	}
	return n
}

// declaredIntent finds the intents of a configuration.
var declaredIntent = regexp.MustCompile(`(?m)^intent "([^"]+)"`)

// needNoModel are the intents that no model serves: the capability that does, its
// plugin, and what serves while that plugin is out of service; empty: nothing.
var needNoModel = []struct{ intent, first, plugin, next string }{
	{"chess/best-move", "chess/embedded", "chess", "chess/reserve"},
	{"sat/solve", "sat/solver", "sat", ""},
	{"route/classify", "text/classifier", "text", ""},
	{"text/render", "text/template", "text", ""},
}

// servedByModels are the intents that models serve.
var servedByModels = []struct {
	intent, first, spare string
	last                 string // serves if every model fails; empty: nothing does
	structured           bool   // its answer is JSON
	refusal              string // of a judge, which no other model is asked after; empty: the spare is
}{
	{"text/respond", "llm/voice", "mlx/voice", "", false, ""},
	{"context/summarize", "llm/meta", "mlx/meta", "text/extractive", false, ""},
	{"problem/solve", "llm/solver", "mlx/solver", "", true, ""},
	{"code/generate", "llm/code", "mlx/code", "", false, ""},
	{"code/patch", "llm/code", "mlx/code", "", false, ""},
	{"eval/grade", "llm/voice", "mlx/voice", "judge/rules", true, ":judge/rubric judge/no-score"},
	{"code/explain", "llm/code", "mlx/code", "", false, ""},
	{"code/review", "llm/code", "mlx/code", "", false, ""},
	{"route/decide", "llm/router", "mlx/router", "text/classifier", true, ""},
	{"model/chat", "llm/voice", "mlx/voice", "", false, ""},
}

// faultTypes are the failures that the faults of a model end in.
var faultTypes = map[string]string{
	"down": "provider/unavailable", "500": "provider/error", "empty": "provider/empty",
	"long": "provider/context-exceeded", "long-gemini": "provider/context-exceeded",
	"long-tgi": "provider/context-exceeded",
	"cut":      "eval/must-failed", "cut-long": "eval/must-failed", "broken": "stream/truncated", "holed": "stream/truncated",
	"invalid": "", "refused": "eval/",
}

// failureOf returns how the first attempt at an intent fails.
func failureOf(intent, fault string) string {
	if bySchema := intent == "eval/grade" || intent == "route/decide"; bySchema && strings.HasPrefix(fault, "cut") {
		return "provider/output-truncated" // half of such an answer is an error of the plugin
	}
	return faultTypes[fault]
}

// EMB-002, LLM-024: with the shipped policy and one provider alone, whose round trips
// are fewer, a fault is followed by the candidate without a model, or by an error that
// says what the model did. With the spare model too, every fault of the first model is
// followed by an answer.
func TestShippedPolicy(t *testing.T) {
	faults := []string{"cut", "cut-long", "broken", "holed", "down", "empty"}
	t.Run("one provider", func(t *testing.T) {
		h := newShippedHost(t)
		for _, row := range servedByModels {
			for _, fault := range faults {
				for range 4 { // more answers than failures, so that no breaker opens
					v := h.ask(row.intent, "nobody", "none")
					require.Equal(t, ":"+row.first, server(v), "%s", v)
				}
				v := h.ask(row.intent, everyModel, fault)
				if failed := failures(v); assert.NotEmpty(t, failed, "%s %s: %s", row.intent, fault, v) {
					assert.Contains(t, failed[0], " "+failureOf(row.intent, fault), "%s %s", row.intent, fault)
					if row.intent == "eval/grade" { // the retries of the judge and of its model are not multiplied
						assert.LessOrEqual(t, countOf(failed, ":"+row.first), 2, "%s: %s", fault, failed)
					}
				}
				if row.last != "" {
					assert.Equal(t, ":"+row.last, server(v), "%s %s: %s", row.intent, fault, v)
				} else {
					assertFailed(t, v, fault)
				}
			}
		}
	})
	t.Run("with a spare", func(t *testing.T) {
		h := newShippedHost(t, "MLX_MODEL=tiny")
		for _, row := range servedByModels {
			for _, fault := range faults {
				for range 4 {
					h.ask(row.intent, "nobody", "none")
				}
				v := h.ask(row.intent, "first", fault)
				assert.Contains(t, []string{":" + row.first, ":" + row.spare}, server(v), "%s %s: %s", row.intent, fault, v)
				assert.True(t, v.Key("error").IsNil(), "%s %s: %s", row.intent, fault, v)
				assert.NotEqual(t, ":length", v.Key("invoke/meta").Key("finish").String(), "%s %s: %s", row.intent, fault, v)
			}
		}
	})
}

// WS-095: a custom policy can use the intent context/summarize of the shipped configuration,
// whichever of its capabilities serves it.
func TestShippedCustomPolicy(t *testing.T) {
	h := newShippedHost(t, "MLX_MODEL=tiny")
	note := filepath.Join(h.dir, "note.txt")
	h.ferment("workspace", "scan")
	for order, want := range map[string]string{
		"nobody none": goodAnswers["context/summarize"],
		"first down":  goodAnswers["context/summarize"],
		"every down":  "The harbour is full of boats.", // a sentence of the frame
	} {
		text := "The harbour is full of boats. [[context/summarize " + order + "]]"
		require.NoError(t, os.WriteFile(note, []byte(text), 0o600))
		h.ferment("context", "put-frame", "tree/tide.sh", note, "--type", "note")
		h.ferment("context", "synthesize", "tree", "--type", "note", "--policy", "{:kind :custom :intent :context/summarize}")
		assert.Contains(t, h.ferment("context", "get-node", "tree"), want, order)
	}
}

// assertFailed checks that an error says what went wrong with the last candidate.
func assertFailed(t *testing.T, response edn.Value, fault string) {
	t.Helper()
	e := response.Key("error")
	if e.Key("type").String() == ":budget/exceeded" { // the last round trip went to a retry
		e = e.Key("cause")
	}
	assert.False(t, e.Key("type").IsNil(), "%s: %s", fault, response)
	empty := []string{":unsupported/intent", ":budget/exceeded", ":runtime/internal"}
	assert.NotContains(t, empty, e.Key("type").String(), "%s: %s", fault, e)
}

// limitOf finds a limit in the block of an intent.
func limitOf(block, name string) int {
	m := regexp.MustCompile(`(?m)\b` + name + ` +?= +(\d+)`).FindStringSubmatch(block)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// TXT-005, LLM-024: a token limit of the shipped file lets models finish an answer of
// twice the allowed length, which the host shortens. A token of English prose has
// about 4 characters, one of inflected languages and of programs about 2.5.
func TestShippedLimitsFit(t *testing.T) {
	shipped, err := os.ReadFile("../ferment.hcl")
	require.NoError(t, err)
	limited := 0
	for _, block := range strings.Split(string(shipped), "\nintent ")[1:] {
		block, _, _ = strings.Cut(block, "\n}")
		tokens, chars := limitOf(block, "max_tokens"), limitOf(block, "max_chars")
		assert.LessOrEqual(t, chars, maxChars, block)
		if tokens == 0 || chars == 0 {
			continue
		}
		limited++
		assert.GreaterOrEqual(t, 2*tokens, chars, block)
	}
	assert.Equal(t, 7, limited, "intents with both limits")
}
