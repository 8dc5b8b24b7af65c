package livetest

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Limits of what is waited for.
const (
	startLimit = 2 * time.Minute
	stopLimit  = 10 * time.Second
)

// Server is a running model server.
type Server struct {
	// URL is what a compatible provider takes as its base URL.
	URL string
	// Model is the name of its only model.
	Model string
}

// Missing says what is not there that Start needs, with the folder of this
// package, "" for nothing.
func Missing(dir string) string {
	if _, err := exec.LookPath("node"); err != nil {
		return "node is not installed"
	}
	folder := filepath.Join(dir, "server")
	if _, err := os.Stat(filepath.Join(folder, "node_modules", "inference-server")); err != nil {
		return "its packages are not installed: run npm ci in plugins/internal/provider/livetest/server"
	}
	return ""
}

// Start starts the server, which ends with the test. dir is the folder of this
// package.
func Start(t testing.TB, dir string) *Server {
	t.Helper()
	if missing := Missing(dir); missing != "" {
		t.Fatalf("the model server cannot be started: %s", missing)
	}
	home := t.TempDir()
	model := filepath.Join(home, Name+".gguf")
	if err := os.WriteFile(model, Model(Scripts()...), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("node", "serve.mjs", model, Name, home)
	c.Dir = filepath.Join(dir, "server")
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
	said := &tail{}
	c.Stderr = said
	in, err := c.StdinPipe() // the server ends with it, also if this process is killed
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ready, over := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(over)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if port, ok := strings.CutPrefix(lines.Text(), "listening "); ok {
				ready <- port
				continue
			}
			said.line(lines.Text())
		}
		_ = c.Wait() // its end is what was asked for, or is told by whoever waits for ready
	}()
	t.Cleanup(func() {
		_ = in.Close()
		select {
		case <-over:
		case <-time.After(stopLimit):
			_ = c.Process.Kill()
			<-over
		}
	})
	select {
	case port := <-ready:
		return &Server{URL: fmt.Sprintf("http://127.0.0.1:%s/openai/v1", port), Model: Name}
	case <-over:
		t.Fatalf("the model server ended: %s", said)
	case <-time.After(startLimit):
		t.Fatalf("the model server is not up after %s: %s", startLimit, said)
	}
	return nil
}

// tail keeps what a process said last.
type tail struct {
	mu   sync.Mutex
	text bytes.Buffer
}

const tailed = 16 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text.Write(b)
	if over := t.text.Len() - tailed; over > 0 {
		t.text.Next(over)
	}
	return len(b), nil
}

func (t *tail) line(s string) { _, _ = t.Write([]byte(s + "\n")) }

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}
