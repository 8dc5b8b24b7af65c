package servertest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// word is the first argument of a process that is to be a server.
const word = "scripted-model-server"

// Command returns the command of a server with the behavior that the words
// describe.
func Command(words ...string) []string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return append([]string{self, word, "{port}"}, words...)
}

// Main runs the server and ends the process if the arguments are those of Command; otherwise it
// returns. TestMain must call it first.
func Main(args []string) {
	if len(args) < 3 || args[1] != word {
		return
	}
	s := &script{port: args[2], words: map[string]string{}}
	for _, w := range args[3:] {
		name, value, _ := strings.Cut(w, "=")
		s.words[name] = value
	}
	s.run()
}

type script struct {
	port   string
	words  map[string]string
	probes atomic.Int64
	asked  atomic.Int64
	mark   sync.Mutex
}

func (s *script) has(name string) bool { _, ok := s.words[name]; return ok }

func (s *script) number(name string) int64 {
	n, _ := strconv.ParseInt(s.words[name], 10, 64)
	return n
}

func (s *script) note(text string) {
	if !s.has("mark") {
		return
	}
	s.mark.Lock()
	defer s.mark.Unlock()
	f, err := os.OpenFile(s.words["mark"], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_, _ = fmt.Fprintln(f, text)
	_ = f.Close()
}

func (s *script) run() {
	s.note(fmt.Sprint("start ", os.Getpid()))
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		for sig := range signals {
			s.note(sig.String())
			if !s.has("deaf") {
				os.Exit(0)
			}
		}
	}()
	if s.has("fork") {
		s.fork()
	}
	if n := s.number("spew"); n > 0 {
		s.spew(n)
	}
	if s.has("say") {
		fmt.Fprintln(os.Stderr, s.words["say"])
	}
	if s.has("exit") {
		os.Exit(int(s.number("exit")))
	}
	if s.has("stdin") {
		go s.listen()
	}
	for gate := s.words["gate"]; s.has("gate") && !exists(gate) && !exists(gate+"-"+s.port); {
		time.Sleep(time.Millisecond)
	}
	if s.has("never") {
		select {}
	}
	s.serve()
}

func (s *script) fork() {
	child := exec.Command(os.Args[0], word, "0", "never", "deaf")
	if child.Start() != nil {
		os.Exit(97)
	}
	s.note(fmt.Sprint("start ", child.Process.Pid))
}

func (s *script) spew(n int64) {
	line := []byte(strings.Repeat("x", 1<<16-1) + "\n")
	for ; n > 0; n -= int64(len(line)) {
		if _, err := os.Stderr.Write(line); err != nil {
			return
		}
	}
}

func (s *script) listen() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if lines.Text() == "bye" {
			s.note("bye")
			os.Exit(0)
		}
	}
}

func (s *script) serve() {
	address := "127.0.0.1:" + s.port
	switch {
	case s.has("elsewhere"):
		address = "127.0.0.1:0"
	case s.has("open"):
		address = "0.0.0.0:" + s.port
	}
	l, err := net.Listen("tcp4", address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	mux := http.NewServeMux()
	if !s.has("nohealth") {
		mux.HandleFunc("GET /health", s.health)
	}
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, `{"data":[]}`) })
	mux.HandleFunc("POST /quit", func(http.ResponseWriter, *http.Request) {
		s.note("quit")
		os.Exit(0)
	})
	mux.HandleFunc("POST /v1/chat/completions", s.chat)
	if s.has("tokenize") {
		mux.HandleFunc("POST /tokenize", tokenize)
	}
	_ = http.Serve(l, mux)
}

func (s *script) health(w http.ResponseWriter, _ *http.Request) {
	if s.probes.Add(1) <= s.number("loading") {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprint(w, `{"status": "ok"}`)
}

// tokenize counts one token per word.
func tokenize(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Content string `json:"content"`
	}
	if json.NewDecoder(r.Body).Decode(&q) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	tokens := make([]int, len(strings.Fields(q.Content)))
	_ = json.NewEncoder(w).Encode(map[string]any{"tokens": tokens})
}

type request struct {
	Model     string `json:"model"`
	MaxTokens int64  `json:"max_tokens"`
	Stream    bool   `json:"stream"`
	Usage     struct {
		Included bool `json:"include_usage"`
	} `json:"stream_options"`
	Messages []struct {
		Content string `json:"content"`
	} `json:"messages"`
}

func (s *script) chat(w http.ResponseWriter, r *http.Request) {
	var q request
	if json.NewDecoder(r.Body).Decode(&q) != nil || len(q.Messages) == 0 || q.MaxTokens == 0 {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	said, ok := s.words["each"]
	if !ok {
		said, ok = s.words["first"]
		ok = ok && s.asked.Add(1) == 1
	}
	if ok {
		status, body, _ := strings.Cut(said, ":")
		n, _ := strconv.Atoi(status)
		w.WriteHeader(n)
		_, _ = fmt.Fprint(w, body)
		return
	}
	if !q.Stream {
		whole := q.packet("chat.completion", choice{"finish_reason": "length",
			"message": choice{"role": "assistant", "content": "x"}})
		whole["usage"] = usage(9, 1)
		_ = json.NewEncoder(w).Encode(whole)
		return
	}
	s.answer(w, r, q)
}

func (s *script) answer(w http.ResponseWriter, r *http.Request, q request) {
	how, file, _ := strings.Cut(q.Messages[len(q.Messages)-1].Content, ":")
	say := func(text string) { event(w, q.delta(text, nil)) }
	switch how {
	case "oom":
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprint(w, `{"error":{"message":"failed to allocate 9 GiB: out of memory"}}`)
		return
	case "oom-exit":
		fmt.Fprintln(os.Stderr, "libc++abi: terminating: [METAL] Command buffer execution failed: Insufficient Memory")
		os.Exit(134)
	case "die":
		die()
	case "die-once":
		if !exists(file) {
			_ = os.WriteFile(file, nil, 0o600)
			die()
		}
	case "exit":
		os.Exit(3)
	case "hang-up": // the process ends a while after its connections broke
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = conn.Close()
		}
		time.Sleep(150 * time.Millisecond)
		os.Exit(3)
	case "freeze":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(time.Second) // delays the end
	case "hold":
		s.note("hold")
		for !exists(file) && r.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send(w, ": keepalive 9/9\n\n") // while the prompt is read
	switch how {
	case "model":
		say(fmt.Sprintf("%s %d %s", q.Model, q.MaxTokens, os.Getenv("HF_HUB_OFFLINE")))
	case "die-late":
		say("a piece")
		time.Sleep(50 * time.Millisecond) // or the piece dies with the process
		die()
	case "slow":
		for r.Context().Err() == nil {
			say("a ")
			time.Sleep(20 * time.Millisecond)
		}
		return
	default:
		say(fmt.Sprint("answer of ", os.Getpid()))
	}
	event(w, q.delta("", "stop"))
	if q.Usage.Included {
		last := q.packet("chat.completion")
		last["usage"] = usage(9, 3)
		event(w, last)
	}
	send(w, "data: [DONE]\n\n")
}

type choice map[string]any

// packet returns one packet in the form of mlx_lm.server.
func (q request) packet(object string, choices ...choice) map[string]any {
	for i := range choices {
		choices[i]["index"] = i
	}
	return map[string]any{
		"id": "chatcmpl-1", "system_fingerprint": "scripted", "object": object, "model": q.Model,
		"created": 1_790_000_000, "choices": append([]choice{}, choices...),
	}
}

// delta returns a piece of a stream. Each one names the role, and has no
// content where there is no text.
func (q request) delta(text string, finish any) map[string]any {
	said := choice{"role": "assistant"}
	if text != "" {
		said["content"] = text
	}
	return q.packet("chat.completion.chunk", choice{"finish_reason": finish, "delta": said})
}

func usage(in, out int) map[string]any {
	return map[string]any{
		"prompt_tokens": in, "completion_tokens": out, "total_tokens": in + out,
		"prompt_tokens_details": map[string]any{"cached_tokens": 0},
	}
}

func event(w http.ResponseWriter, packet map[string]any) {
	text, _ := json.Marshal(packet)
	send(w, "data: "+string(text)+"\n\n")
}

func send(w http.ResponseWriter, text string) {
	_, _ = fmt.Fprint(w, text)
	_ = http.NewResponseController(w).Flush()
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
