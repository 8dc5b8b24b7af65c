package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/edn"
)

// daemon is the host as shipped: the program and the plugins in processes of
// their own. None of it is imported.
type daemon struct {
	t       testing.TB
	dir     string
	bin     string
	config  string
	address string
	env     []string
	cmd     *exec.Cmd
	client  *http.Client
	over    chan struct{} // closed when standard error was read to its end

	mu  sync.Mutex
	log []string
}

// programs returns the directory of the shipped host and plugins: those that
// "make test" has built, or else built here.
func programs(t testing.TB) string {
	t.Helper()
	if bin := os.Getenv("FERMENT_BIN"); bin != "" {
		return bin
	}
	bin := t.TempDir()
	for _, args := range [][]string{{filepath.Join(bin, "ferment"), "./host/ferment"}, {filepath.Join(bin, "plugins") + string(filepath.Separator), "./plugins/llm", "./plugins/scripted", "./plugins/text"}} {
		cmd := exec.Command("go", append([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o"}, args...)...)
		cmd.Dir = filepath.Join("..", "..")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	return bin
}

// daemonOf starts the host with a configuration, and other files by name. It
// ends with the test, which fails if a process of it is left.
func daemonOf(t testing.TB, bin, config string, files map[string]string, env ...string) *daemon {
	t.Helper()
	dir, err := os.MkdirTemp("", "fer-llm-") // short: it contains sockets
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	d := &daemon{t: t, dir: dir, bin: bin, config: config, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}, over: make(chan struct{})}
	for _, sub := range []string{"home", "rt"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, sub), 0o700))
	}
	d.write("ferment.hcl", config)
	for name, text := range files {
		d.write(name, text)
	}
	d.env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "XDG_RUNTIME_DIR=" + filepath.Join(dir, "rt")}, env...)
	d.cmd = d.command("serve")
	stderr, err := d.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, d.cmd.Start())
	ready := make(chan string, 1)
	go d.listen(stderr, ready)
	t.Cleanup(d.stop)
	select {
	case d.address = <-ready:
	case <-d.over:
	case <-time.After(time.Minute):
	}
	require.NotEmpty(t, d.address, "the host does not get ready:\n%s", strings.Join(d.said(), "\n"))
	return d
}

func (d *daemon) write(name, text string) {
	require.NoError(d.t, os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o600))
}

// command returns a command of the program.
func (d *daemon) command(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(d.bin, "ferment"), args...)
	cmd.Dir, cmd.Env = d.dir, d.env
	return cmd
}

// listen keeps the log of the host, and sends its address once it serves, ready
// or not.
func (d *daemon) listen(stderr io.Reader, ready chan<- string) {
	defer close(d.over)
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		d.mu.Lock()
		d.log = append(d.log, lines.Text())
		d.mu.Unlock()
		var line struct {
			Message string   `json:"@message"`
			Listen  []string `json:"listen"`
		}
		if json.Unmarshal(lines.Bytes(), &line) != nil || !strings.HasSuffix(line.Message, "ready") {
			continue
		}
		for _, address := range line.Listen {
			if !strings.HasPrefix(address, "/") {
				ready <- address
				break
			}
		}
	}
}

func (d *daemon) said() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.log...)
}

// stop stops the host with a signal and fails the test if a process is left.
func (d *daemon) stop() {
	if d.cmd.ProcessState != nil {
		return
	}
	d.client.CloseIdleConnections()
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(30*time.Second, func() { _ = d.cmd.Process.Kill() })
	<-d.over
	err := d.cmd.Wait()
	late.Stop()
	assert.NoError(d.t, err, "the end of the host: %s", strings.Join(d.said(), "\n"))
	assert.Empty(d.t, d.processes(), "processes of the host that are left")
}

// processes returns the processes of the programs of this test.
func (d *daemon) processes() (left []string) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if path, err := os.Readlink(link); err == nil && strings.HasPrefix(path, d.bin+string(filepath.Separator)) {
			if dir, err := os.Readlink(filepath.Join(filepath.Dir(link), "cwd")); err == nil && strings.HasPrefix(dir, d.dir) {
				left = append(left, link+" "+path)
			}
		}
	}
	return left
}

// run runs a command of the program to its end.
func (d *daemon) run(args ...string) (stdout, stderr string, code int) {
	d.t.Helper()
	cmd := d.command(args...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run()
	if _, ok := err.(*exec.ExitError); !ok {
		require.NoError(d.t, err)
	}
	return out.String(), problems.String(), cmd.ProcessState.ExitCode()
}

// heard is the response to a client.
type heard struct {
	response edn.Value
	events   []edn.Value // of a stream, with their names under :event
	text     string      // text shown by the client at the end
	raw      string
	status   int
	header   http.Header
}

// act sends an act and waits for the answer. A stream is read to its end.
func (d *daemon) act(ctx context.Context, body string, stream bool) heard {
	d.t.Helper()
	h, err := d.try(ctx, body, stream, nil)
	require.NoError(d.t, err)
	return h
}

// try is act for clients that may disconnect; watch is called with each event
// of a stream.
func (d *daemon) try(ctx context.Context, body string, stream bool, watch func(edn.Value)) (heard, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+d.address+"/v1/act?format=edn", strings.NewReader(body))
	if err != nil {
		return heard{}, err
	}
	r.Header.Set("Content-Type", "application/edn")
	r.Header.Set("Accept", "application/edn")
	if stream {
		r.Header.Set("Accept", "text/event-stream")
	}
	resp, err := d.client.Do(r)
	if err != nil {
		return heard{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	h := heard{status: resp.StatusCode, header: resp.Header}
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return h, err
		}
		h.raw = string(text)
		h.response, err = edn.Read(text, edn.WithLimits(edn.Body))
		return h, err
	}
	return h, h.follow(resp.Body, watch)
}

// follow reads the events of a stream.
func (h *heard) follow(body io.Reader, watch func(edn.Value)) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 16<<20)
	name := ""
	for lines.Scan() {
		h.raw += lines.Text() + "\n"
		key, value, _ := strings.Cut(lines.Text(), ": ")
		switch key {
		case "event":
			name = value
		case "data":
			e, err := edn.ReadString(value, edn.WithLimits(edn.Body))
			if err != nil {
				return err
			}
			e = e.AssocKey("event", edn.K(name))
			h.events = append(h.events, e)
			text, _ := e.Key("text").AsString()
			switch name {
			case "chunk", "provisional":
				h.text += text
			case "retract":
				h.text = ""
			case "finished":
				h.response = e.Key("response")
			}
			if watch != nil {
				watch(e)
			}
		}
	}
	return lines.Err()
}

// names returns the names of the events, in order; equal neighbors are merged.
func (h heard) names() (all []string) {
	for _, e := range h.events {
		name, _ := e.Key("event").AsKeyword()
		if len(all) == 0 || all[len(all)-1] != name {
			all = append(all, name)
		}
	}
	return all
}
