package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"
)

// The model server of the benchmarks streams chat completions. The name of the model gives the
// number of chunks and their interval, such as "2000x1ms"; the text is always the same. The server
// exits when its standard input is closed.

const roleModels = "model-server"

func serveModels() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	var active atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("GET /active", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, active.Load()) })
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		active.Add(1)
		defer active.Add(-1)
		stream(w, r)
	})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	server := &http.Server{Handler: mux, ReadHeaderTimeout: deadline}
	return server.Serve(l)
}

const (
	chunkOf = `data: {"id":"c","object":"chat.completion.chunk","created":1790000000,"model":"bench","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}` + "\n\n"
	lastOf  = `data: {"id":"c","object":"chat.completion.chunk","created":1790000000,"model":"bench","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":9}}` + "\n\ndata: [DONE]\n\n"
)

func stream(w http.ResponseWriter, r *http.Request) {
	var body struct{ Model string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	count, text, _ := strings.Cut(body.Model, "x")
	var n int
	_, _ = fmt.Sscan(count, &n)
	gap, _ := time.ParseDuration(text)
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w).Flush
	began := time.Now()
	for i := range n {
		if gap > 0 {
			select {
			case <-time.After(time.Until(began.Add(time.Duration(i) * gap))):
			case <-r.Context().Done():
				return
			}
		}
		if _, err := io.WriteString(w, chunkOf); err != nil {
			return
		}
		if (gap > 0 || i == 0) && flush() != nil {
			return
		}
	}
	_, _ = io.WriteString(w, lastOf)
}

// modelServer is the model server as a child process.
type modelServer struct {
	cmd  *exec.Cmd
	in   io.Closer
	base string
	port uint16
	http http.Client
}

func startModelServer() (*modelServer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	m := &modelServer{cmd: exec.Command(self, roleModels)}
	m.cmd.Stderr = os.Stderr
	if m.in, err = m.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := m.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		m.close()
		return nil, fmt.Errorf("start the model server: %w", err)
	}
	address := strings.TrimSpace(line)
	m.base = "http://" + address
	_, err = fmt.Sscanf(address, "127.0.0.1:%d", &m.port)
	m.http.Transport = &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 4}
	return m, err
}

func (m *modelServer) close() {
	_ = m.in.Close()
	_ = m.cmd.Wait()
}

// active returns the number of streams in progress on the server.
func (m *modelServer) active() (n int, err error) {
	r, err := m.http.Get(m.base + "/active")
	if err != nil {
		return 0, err
	}
	defer func() { _ = r.Body.Close() }()
	_, err = fmt.Fscan(r.Body, &n)
	return n, err
}

// direct reads and decodes a stream without Ferment. It returns the time of the first text and the
// number of chunks with text.
func (m *modelServer) direct(ctx context.Context, model string) (first time.Duration, chunks int, err error) {
	began := time.Now()
	body, err := json.Marshal(map[string]any{"model": model, "messages": []map[string]string{{"role": "user", "content": "Go."}}, "stream": true})
	if err != nil {
		return 0, 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.base+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return 0, 0, err
	}
	response, err := m.http.Do(r)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	var text strings.Builder
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		if string(data) == "[DONE]" {
			_, _ = io.Copy(io.Discard, response.Body)
			return first, chunks, nil
		}
		var chunk struct {
			Choices []struct {
				Delta struct{ Content string }
			}
		}
		if err := json.Unmarshal(data, &chunk); err != nil {
			return 0, 0, err
		}
		for _, c := range chunk.Choices {
			if c.Delta.Content == "" {
				continue
			}
			if chunks++; chunks == 1 {
				first = time.Since(began)
			}
			text.WriteString(c.Delta.Content)
		}
	}
	return 0, 0, errors.Join(lines.Err(), errors.New("the stream ended early"))
}
