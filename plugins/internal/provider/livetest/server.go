package livetest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"
)

// Limits of the waits for a server.
const (
	startLimit = 2 * time.Minute
	stopLimit  = 10 * time.Second
)

// Server is a running model server.
type Server struct {
	// URL is the base URL for a provider; that of StartOllama has no version path,
	// as the provider ollama expects.
	URL string
	// Model is the name of its model.
	Model string
}

// Missing returns what Start needs and the machine lacks, as a sentence for a
// skipped test, or "" if nothing is missing. dir is the directory of this
// package.
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

// Start starts the server and stops it when the test ends. dir is the directory
// of this package. It fails the test if Missing is not empty.
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
	port := launch(t, c, regexp.MustCompile(`^listening (\d+)$`))
	return &Server{URL: fmt.Sprintf("http://127.0.0.1:%s/openai/v1", port), Model: Name}
}

// launch starts a server that stops when its standard input is closed, and so also when this
// process is killed. It returns the port in the line of output that matches ready, and fails the
// test if no such line arrives within startLimit.
func launch(t testing.TB, c *exec.Cmd, ready *regexp.Regexp) string {
	t.Helper()
	said := &tail{}
	c.Stderr = said
	in, err := c.StdinPipe()
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
	ports, over := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(over)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if m := ready.FindStringSubmatch(lines.Text()); m != nil && cap(ports) > len(ports) {
				ports <- m[1]
				continue
			}
			said.line(lines.Text())
		}
		_, _ = io.Copy(said, out) // after a line that is too long
		_ = c.Wait()              // its end was requested, or is reported by the wait for the port
	}()
	t.Cleanup(func() {
		_ = in.Close()
		select {
		case <-over:
		case <-time.After(stopLimit):
			_ = c.Process.Kill()
			<-over
		}
		if t.Failed() {
			t.Logf("the model server said last: %s", said)
		}
	})
	select {
	case port := <-ports:
		return port
	case <-over:
		t.Fatalf("the model server ended: %s", said)
	case <-time.After(startLimit):
		t.Fatalf("the model server is not up after %s: %s", startLimit, said)
	}
	return ""
}

// tail keeps the last 16 KiB of the output of a process. It is safe for concurrent use.
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
