package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/plugin"
	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/edn"
)

// The model server that plugin mlx starts and supervises. It is not ready before loadTime has
// passed, records when it becomes ready, and kills itself once on the prompt "Die.".

const (
	roleOwnModel = "own-model-server"
	loadTime     = 400 * time.Millisecond
	// twoProbes is the time of two probe intervals at loadTime: the intervals between the first
	// five probes are 100, 150, 225 and 337 ms.
	twoProbes = 450 * time.Millisecond
)

// serveOwnModel serves on a port. It writes its time stamps and markers to files in dir.
func serveOwnModel(port, dir string) error {
	began := time.Now()
	told := false
	mux := http.NewServeMux()
	time.AfterFunc(loadTime, func() {
		_ = os.WriteFile(filepath.Join(dir, "ready"), []byte(strconv.FormatInt(time.Now().UnixNano(), 10)), 0o600)
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		if time.Since(began) < loadTime {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		switch {
		case !strings.Contains(string(body), `"stream":true`):
			_, _ = io.WriteString(w, `{"choices":[{"index":0,"message":{"content":"x"},"finish_reason":"stop"}]}`)
			return
		case strings.Contains(string(body), "Die."):
			if _, err := os.Stat(filepath.Join(dir, "died")); err != nil && !told {
				told = true
				_ = os.WriteFile(filepath.Join(dir, "died"), nil, 0o600)
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		stream(w, r)
	})
	server := &http.Server{Addr: "127.0.0.1:" + port, Handler: mux, ReadHeaderTimeout: deadline}
	return server.ListenAndServe()
}

// ownRun is the plugin mlx with the model server that it starts.
type ownRun struct {
	*alone
	dir string
}

func startOwn() (*ownRun, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	program, err := filepath.Abs(programs + "/plugins/mlx")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "fer-own-")
	if err != nil {
		return nil, err
	}
	settings := plugin.DefaultSettings("mlx", program)
	settings.Config = edn.MustRead(fmt.Sprintf(`{:model %q :preset "generic" :command [%q %q "{port}" %q]
	  :serve {"voice" {:intents ["model/chat"]}}}`, modelFirst, self, roleOwnModel, dir))
	settings.Isolation.Network = confine.Loopback
	settings.Isolation.Exec, settings.Isolation.Programs = []string{self}, true
	settings.Isolation.WritePaths = []string{dir}
	settings.Isolation.Level = confine.None
	a, err := startPlugin(settings, "mlx/voice", "mlx/server")
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &ownRun{a, dir}, nil
}

func (o *ownRun) close() {
	o.alone.close()
	_ = os.RemoveAll(o.dir)
}

func (o *ownRun) say(prompt string) error {
	request := edn.MustRead(`{:proto 1 :trace {:id "bench"} :task {:intent :model/chat} :input {:messages [{:role :user :content "` + prompt + `"}]}}`)
	_, err := o.ask(context.Background(), "mlx/voice", request, nil)
	return err
}

func (o *ownRun) operate(intent string) (edn.Value, error) {
	response, err := o.ask(context.Background(), "mlx/server", edn.MustRead(`{:proto 1 :trace {:id "bench"} :task {:intent :`+intent+`} :input {}}`), nil)
	return response.Key("result").Key("out"), err
}

// deaths returns the number of server deaths in the last health report of the plugin.
func (o *ownRun) deaths() uint64 {
	for _, s := range o.supervisor.Status() {
		for _, c := range s.Health.Capabilities {
			return c.Deaths
		}
	}
	return 0
}

// own measures the supervision of a model server (MLX-022).
func own(p pace) ([]row, error) {
	o, err := startOwn()
	if err != nil {
		return nil, err
	}
	defer o.close()
	if err := o.say("Go."); err != nil {
		return nil, err
	}
	warm, err := o.warm(p)
	if err != nil {
		return nil, err
	}
	var ready, noticed, again []time.Duration
	for range p.rounds {
		for _, measure := range []struct {
			of  func() (time.Duration, error)
			all *[]time.Duration
		}{{o.ready, &ready}, {o.notice, &noticed}, {o.again, &again}} {
			took, err := measure.of()
			if err != nil {
				return nil, err
			}
			*measure.all = append(*measure.all, took)
			if _, err := o.operate("model/quit"); err != nil { // resets the count of deaths too
				return nil, err
			}
		}
	}
	limit := func(work string, all []time.Duration, goal time.Duration) row {
		took := median(all)
		return row{work: work, ours: figure(took), ratio: float64(took) / float64(goal), goal: "<= " + figure(goal), within: took <= goal}
	}
	return []row{
		limit("a model server has loaded, until calls go to it", ready, twoProbes),
		limit("a model server is killed, until the host knows", noticed, 50*time.Millisecond),
		limit("a call that kills its model server, beside the start of another", again, 200*time.Millisecond),
		warm,
	}, nil
}

// ready returns the time from the end of loading until the plugin sees the server as ready.
func (o *ownRun) ready() (time.Duration, error) {
	if err := o.say("Go."); err != nil {
		return 0, err
	}
	text, err := os.ReadFile(filepath.Join(o.dir, "ready"))
	if err != nil {
		return 0, err
	}
	loaded, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return 0, err
	}
	status, err := o.operate("model/status")
	if err != nil {
		return 0, err
	}
	var at time.Time
	for e := range status.Key("events").Elems() {
		if e.Key("to").String() == ":ready" {
			at, _ = e.Key("at").AsInst()
		}
	}
	return at.Sub(time.Unix(0, loaded)), nil
}

// notice returns the time from a kill of the server until the host has a report of it.
func (o *ownRun) notice() (time.Duration, error) {
	if err := o.say("Go."); err != nil {
		return 0, err
	}
	pid, _, err := o.server()
	if err != nil {
		return 0, err
	}
	before, began := o.deaths(), time.Now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return 0, err
	}
	for o.deaths() == before {
		if time.Since(began) > deadline {
			return 0, errors.New("the host did not detect that the model server died")
		}
		time.Sleep(100 * time.Microsecond)
	}
	return time.Since(began), nil
}

// server returns the process id and the port of the model server.
func (o *ownRun) server() (pid, port int, err error) {
	status, err := o.operate("model/status")
	for w := range status.Key("workers").Elems() {
		p, _ := w.Key("pid").AsInt()
		n, _ := w.Key("port").AsInt()
		pid, port = int(p), int(n)
	}
	if err == nil && pid == 0 {
		err = errors.New("there is no model server")
	}
	return pid, port, err
}

// again returns the time of a call that kills its server, without the start of the next server.
func (o *ownRun) again() (time.Duration, error) {
	if err := o.say("Go."); err != nil {
		return 0, err
	}
	_ = os.Remove(filepath.Join(o.dir, "died"))
	began := time.Now()
	if err := o.say("Die."); err != nil {
		return 0, err
	}
	took := time.Since(began)
	status, err := o.operate("model/status")
	if err != nil {
		return 0, err
	}
	start, _ := status.Key("start-ms").AsInt()
	if status.Key("deaths/lately").String() != "1" {
		return 0, fmt.Errorf("one death was expected: %s", status)
	}
	return took - time.Duration(start)*time.Millisecond, nil
}

// warm compares a call of the running model server through plugin mlx with the same call through
// plugin llm.
func (o *ownRun) warm(p pace) (row, error) {
	_, port, err := o.server()
	if err != nil {
		return row{}, err
	}
	program, err := filepath.Abs(programs + "/plugins/llm")
	if err != nil {
		return row{}, err
	}
	settings := plugin.DefaultSettings("llm", program)
	settings.Config = edn.MustRead(fmt.Sprintf(`{:provider "compatible" :base-url "http://127.0.0.1:%d/v1" :model {"first" {:name %q :price {:free true}}}}`, port, modelFirst))
	settings.Isolation.Network, settings.Isolation.Ports = confine.Loopback, []uint16{uint16(port)}
	llm, err := startPlugin(settings, "compatible/first")
	if err != nil {
		return row{}, err
	}
	defer llm.close()
	var ours, theirs []time.Duration
	for round := range p.rounds + 1 {
		if round == 1 { // the first round warms up
			ours, theirs = nil, nil
		}
		for range max(20, p.calls/10) {
			began := time.Now()
			if err := o.say("Go."); err != nil {
				return row{}, err
			}
			middle := time.Now()
			if _, err := llm.ask(context.Background(), "compatible/first", modelRequest, nil); err != nil {
				return row{}, err
			}
			ours, theirs = append(ours, middle.Sub(began)), append(theirs, time.Since(middle))
		}
	}
	return against("a warm call of a model server of one's own", median(ours), "plugin llm", median(theirs), 1.1), nil
}
