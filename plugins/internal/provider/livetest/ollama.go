package livetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// Thinker is the name under which Ollama serves the model as a reasoning model: its template has a
// part for the reasoning.
const Thinker = "thoughtful"

// OllamaWindow is the context window of both models of Ollama, in tokens.
const OllamaWindow = 4096

// The last word of the last message is the last input of the model. Ollama also derives the
// features of the model from the template: it offers tools if the template contains .Tools, the
// text after .ToolCalls is the beginning of a tool call, and the texts around .Thinking mark
// reasoning.
const (
	eachMessage = `{{ range .Messages }} %s{{ .Content }}{{ if .ToolCalls }}[[call:{{ range .ToolCalls }} ` +
		`{{ .Function.Name }}({{ .Function.Arguments }})]]{{ end }}{{ end }}{{ end }}{{ if .Tools }}{{ end }}`
	eachThought = `{{ if .Thinking }}<think>{{ .Thinking }}</think>{{ end }}`
)

// servesOllama is a shell script that runs Ollama in the started process and kills it when standard
// input is closed. Ollama itself does not read standard input.
const servesOllama = `exec 3<&0
(cat <&3; kill $$) >/dev/null 2>&1 &
exec "$0" serve 2>&1 </dev/null 3<&-`

// StartOllama starts program, an Ollama binary, with the model of Scripts. The
// server stops when the test ends. It reads and writes files only in a directory of
// the test and needs no network.
func StartOllama(t testing.TB, program string) *Server {
	t.Helper()
	home := t.TempDir()
	c := exec.Command("sh", "-c", servesOllama, program)
	c.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "OLLAMA_MODELS=" + filepath.Join(home, "models"),
		"OLLAMA_HOST=127.0.0.1:0", "OLLAMA_NO_CLOUD=1", "OLLAMA_NUM_PARALLEL=2", "OLLAMA_MAX_LOADED_MODELS=2",
	}
	port := launch(t, c, regexp.MustCompile(`Listening on 127\.0\.0\.1:(\d+)`))
	s := &Server{URL: "http://127.0.0.1:" + port, Model: Name}
	model := Model(Scripts()...)
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(model))
	s.post(t, "/api/blobs/"+digest, model)
	for name, thought := range map[string]string{Name: "", Thinker: eachThought} {
		request, err := json.Marshal(map[string]any{
			"model":      name,
			"files":      map[string]string{"model.gguf": digest},
			"template":   fmt.Sprintf(eachMessage, thought),
			"parameters": map[string]any{"num_ctx": OllamaWindow, "num_thread": 1}, // for threads see serve.mjs
			"stream":     false,
		})
		if err != nil {
			t.Fatal(err)
		}
		s.post(t, "/api/create", request)
	}
	return s
}

func (s *Server) post(t testing.TB, path string, body []byte) {
	t.Helper()
	r, err := http.Post(s.URL+path, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	said, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode/100 != 2 {
		t.Fatalf("POST %s: status %d, %s, %v", path, r.StatusCode, said, err)
	}
}
