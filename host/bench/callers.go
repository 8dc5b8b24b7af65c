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
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/domain/registry"
	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/host/internal/runtime/config"
	"github.com/fermenthq/ferment/host/internal/runtime/httpapi"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// callersConfig configures a daemon for many callers, with a plugin whose calls last until they are
// released. The plugin connects to a socket named in the call, so it is not isolated.
const callersConfig = `ferment {
  profile  = "test"
  data_dir = "var"
  max_runs = 2000
}

plugin "bench" {
  command       = [%[1]q, "plugin", "held"]
  max_in_flight = 2000
  isolation { level = "none" }
}

store {
  driver = "sqlite"
}

queue {
  class "sync" {
    workers = 2000
  }
}

http {
  listen = ["127.0.0.1:0"]
  limits {
    connections     = 4000
    per_address     = 4000
    run_subscribers = 64
  }
}
`

// held connects to the socket named in the call and returns when the other side closes the
// connection. If the call is canceled first, it writes the time of the cancellation to the socket,
// in nanoseconds.
func held(ctx context.Context, in edn.Value) (edn.Value, error) {
	path, ok := in.Key("held").AsString()
	if !ok {
		return in, nil
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		return edn.Nil(), err
	}
	defer func() { _ = c.Close() }()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_, _ = io.Copy(io.Discard, c)
	}()
	select {
	case <-closed:
		return in, nil
	case <-ctx.Done():
		_, err := fmt.Fprintln(c, time.Now().UnixNano())
		return edn.Nil(), errors.Join(ctx.Err(), err)
	}
}

// serveHeld serves the plugin of callersConfig.
func serveHeld() {
	sdk.Serve(sdk.Plugin{
		Name: "bench", Version: "1.0.0", MaxInFlight: 2000,
		Capabilities: []sdk.Capability{sdk.Func("bench/held", sdk.Intents("bench/held"), held, sdk.MaxInFlight(2000))},
	})
}

// callers measures the time that HTTP adds to an act, and a daemon with many callers.
func callers(p pace) ([]row, error) {
	added, err := addedByHTTP(p)
	if err != nil {
		return nil, err
	}
	h, err := startDaemon(callersConfig)
	if err != nil {
		return nil, err
	}
	defer h.close()
	rows := []row{added}
	for _, measure := range []func(pace, *durableHost) (row, error){noticedCancel, manyReaders, manyActs} {
		more, err := measure(p, h)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more)
	}
	return rows, nil
}

// atOnce is an API backend that answers each act at once with its request.
type atOnce struct {
	httpapi.Backend // the methods that acts do not use

	settings *httpapi.Settings
	users    *identity.Service
	names    *registry.Registry
}

func (b *atOnce) Health() httpapi.Health                { return httpapi.Health{OK: true, Version: "bench"} }
func (b *atOnce) Phase() string                         { return "ready" }
func (b *atOnce) Settings() *httpapi.Settings           { return b.settings }
func (b *atOnce) Identity() *identity.Service           { return b.users }
func (b *atOnce) Take() (httpapi.Turn, *contract.Error) { return turnAtOnce{names: b.names}, nil }

type turnAtOnce struct {
	httpapi.Turn

	names *registry.Registry
}

func (t turnAtOnce) Registry() *registry.Registry { return t.names }
func (t turnAtOnce) Release()                     {}
func (t turnAtOnce) Do(_ context.Context, a act.Act) (edn.Value, *contract.Error) {
	return a.Request.AssocKey("ok?", edn.Bool(true)), nil
}

// addedByHTTP compares acts over HTTP without work, authenticated by a user token, with a net/http
// server that returns the JSON it receives.
func addedByHTTP(p pace) (row, error) {
	ctx := context.Background()
	who := &identity.Settings{
		Required: true, Known: policy.BuiltinRoles(), LoggedIn: policy.RoleUser,
		Basic: identity.Basic{MinBytes: 12, Memory: 64, Time: 1}, TokenTTL: time.Hour, MaxTokenTTL: time.Hour,
	}
	b := &atOnce{settings: &httpapi.Settings{Identity: who, Access: policy.ShippedAccess(), Limits: config.HTTPLimits{
		ActBody: 4 << 20, Headers: 32 << 10, HeaderRead: time.Minute, BodyRead: time.Minute, Idle: time.Minute, Write: time.Minute,
		Connections: 64, PerAddress: 64,
		ActRate: config.Rate{Events: 1e6, Per: time.Second}, ActBurst: 1e6,
	}}}
	var err error
	if b.names, err = registry.New(registry.Spec{}); err != nil {
		return row{}, err
	}
	if b.users, err = identity.Open(ctx, &identity.Memory{}); err != nil {
		return row{}, err
	}
	if _, err := b.users.AddUser(ctx, who, identity.NewUser{Login: "ann"}); err != nil {
		return row{}, err
	}
	_, token, failure := b.users.AddToken(ctx, who, identity.NewToken{Owner: "ann"})
	if failure != nil {
		return row{}, failure
	}
	server, err := httpapi.New(b, nil).Bind(ctx, httpapi.Binding{Listen: []string{"127.0.0.1:0"}}, b.settings)
	if err != nil {
		return row{}, err
	}
	server.Serve()
	defer server.Close()
	address, stop, err := echoJSON()
	if err != nil {
		return row{}, err
	}
	defer stop()
	body, err := json.Marshal(map[string]any{
		"proto": 1, "trace": map[string]any{"id": "bench"}, "task": map[string]any{"intent": "bench/echo"},
		"input": map[string]any{"text": strings.Repeat("plain words and a few more, ", 36)[:900]},
	})
	if err != nil {
		return row{}, err
	}
	ours, theirs := serviceAt("tcp", server.Addresses()[0]), serviceAt("tcp", address)
	ours.token = token
	ask := func(s *service, path string) error {
		_, err := s.send(path, "application/json", body, http.StatusOK)
		return err
	}
	took, err := inTurns(p, max(20, p.calls/5),
		func() error { return ask(ours, "/v1/act") },
		func() error { return ask(theirs, "/") })
	if err != nil {
		return row{}, err
	}
	return against("act of 1 KiB over HTTP without its work, p50", took[0], "net/http JSON echo", took[1], 1.5), nil
}

// heldAct returns the request of an act that lasts until its connection to the socket at path is
// closed.
func heldAct(path string) []byte {
	return fmt.Appendf(nil, `{:proto 1 :trace {:id "bench"} :task {:intent :bench/held} :input {:held %q}}`, path)
}

// noticedCancel measures the time from the cancellation of a request by its caller until the plugin
// sees its call canceled.
func noticedCancel(p pace, h *durableHost) (row, error) {
	const goal = 10 * time.Millisecond
	path := filepath.Join(h.site.dir, "cancel.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		return row{}, err
	}
	defer func() { _ = l.Close() }()
	var all []time.Duration
	for range max(20, p.rounds*p.calls/30) {
		took, err := cancelOnce(h, l, heldAct(path))
		if err != nil {
			return row{}, err
		}
		all = append(all, took)
	}
	p99 := quantile(all, 0.99)
	return row{
		work: "cancel of a caller, seen by the plugin, p99", ours: figure(p99), peer: "p50 " + figure(median(all)),
		ratio: float64(p99) / float64(median(all)), goal: fmt.Sprint("<= ", goal), within: p99 <= goal,
	}, nil
}

func cancelOnce(h *durableHost, l net.Listener, body []byte) (time.Duration, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, h.http.url+"/v1/act", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	q.Header.Set("Content-Type", "application/edn")
	ended := make(chan error, 1)
	go func() {
		r, err := h.http.client.Do(q)
		if err == nil {
			out, _ := io.ReadAll(r.Body)
			_, err = r.Body.Close(), fmt.Errorf("it was answered with %d: %.300s", r.StatusCode, out)
			_ = l.Close() // the accept below must not block
		}
		ended <- err
	}()
	c, err := l.Accept() // the call has begun
	if err != nil {
		return 0, errors.Join(err, <-ended)
	}
	defer func() { _ = c.Close() }()
	began := time.Now()
	cancel()
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("the plugin did not say when it was canceled: %w", err)
	}
	<-ended
	seen, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	return time.Unix(0, seen).Sub(began), err
}

// manyReaders measures the delay between the record of a run's event and its arrival at 64 readers.
func manyReaders(p pace, h *durableHost) (row, error) {
	const readers, goal = 64, 5 * time.Millisecond
	path := filepath.Join(h.site.dir, "readers.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		return row{}, err
	}
	defer func() { _ = l.Close() }()
	steps := max(5, p.calls/50)
	var plan strings.Builder
	fmt.Fprintf(&plan, `{:op :call :id "n0" :intent :bench/held :input {:held %q} :as :v0}`, path)
	for i := 1; i < steps; i++ { // one call after the other, so that events do not pile up
		fmt.Fprintf(&plan, ` {:op :call :id "n%d" :intent :bench/held :needs ["n%d"] :input {:held %q}}`, i, i-1, path)
	}
	body := fmt.Appendf(nil, `{:proto 1 :trace {:id "bench"} :response/type :accepted :task {:intent :plan/run} :effects {:allowed #{:none}} :input {:plan {:id "slow" :nodes [%s]}}}`, plan.String())
	out, err := h.http.send("/v1/act", "application/edn", body, http.StatusAccepted)
	if err != nil {
		return row{}, err
	}
	job, err := edn.Read(out)
	if err != nil {
		return row{}, err
	}
	run, _ := job.Key("job/id").AsString()
	first, err := l.Accept()
	if err != nil {
		return row{}, err
	}
	var group sync.WaitGroup
	delays, errs := make([][]time.Duration, readers), make([]error, readers)
	var ready sync.WaitGroup
	ready.Add(readers)
	for i := range readers {
		group.Go(func() { delays[i], errs[i] = h.readEvents(run, ready.Done) })
	}
	ready.Wait()
	began := time.Now()
	for c := first; ; {
		_ = c.Close()
		if steps--; steps == 0 {
			break
		}
		if c, err = l.Accept(); err != nil {
			return row{}, err
		}
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return row{}, err
	}
	var all []time.Duration
	for _, d := range delays {
		all = append(all, d...)
	}
	if len(all) == 0 {
		return row{}, fmt.Errorf("no reader has seen an event within %s", time.Since(began))
	}
	p99 := quantile(all, 0.99)
	return row{
		work: "event after its record, 64 readers, p99", ours: figure(p99), peer: "p50 " + figure(median(all)),
		ratio: float64(p99) / float64(median(all)), goal: fmt.Sprint("<= ", goal), within: p99 <= goal,
	}, nil
}

// readEvents reads the events of a run to its end. It calls ready at the first event of an attempt,
// and returns the delay from record to reader of each later event.
func (h *durableHost) readEvents(run string, ready func()) (delays []time.Duration, err error) {
	told := false
	defer func() {
		if !told {
			ready()
		}
	}()
	r, err := h.http.client.Get(h.http.url + "/v1/runs/" + run + "/events?format=edn")
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Body.Close() }()
	if r.StatusCode != http.StatusOK {
		out, _ := io.ReadAll(r.Body)
		return nil, fmt.Errorf("status %d: %.500s", r.StatusCode, out)
	}
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		data, is := strings.CutPrefix(lines.Text(), "data: ")
		if !is {
			continue
		}
		at := time.Now()
		_, stamp, _ := strings.Cut(data, `:at #inst "`)
		stamp, _, _ = strings.Cut(stamp, `"`)
		recorded, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil {
			return nil, fmt.Errorf("an event has no time: %.300s", data)
		}
		if told {
			delays = append(delays, at.Sub(recorded))
		} else if strings.Contains(data, ":event :attempt") { // the first call has begun, and is held
			told = true
			ready()
		}
		if strings.Contains(data, ":event :finished") {
			return delays, nil
		}
	}
	return nil, errors.New("the events ended before the run")
}

// manyActs measures the memory of a daemon while 1,000 acts are in progress; 100 in a smoke run.
func manyActs(p pace, h *durableHost) (row, error) {
	const goal = 512 << 20
	acts := 1000
	if p.rounds < 9 {
		acts = 100
	}
	path := filepath.Join(h.site.dir, "acts.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		return row{}, err
	}
	defer func() { _ = l.Close() }()
	body := heldAct(path)
	var group sync.WaitGroup
	errs := make([]error, acts)
	for i := range acts {
		group.Go(func() { errs[i] = h.act(body) })
	}
	open := make([]net.Conn, 0, acts)
	_ = l.(*net.UnixListener).SetDeadline(time.Now().Add(deadline)) // a failed act does not connect
	for range acts {
		c, err := l.Accept()
		if err != nil {
			return row{}, fmt.Errorf("only %d of %d acts began within %s: %w", len(open), acts, deadline, errors.Join(append(errs, err)...))
		}
		open = append(open, c)
	}
	memory, err := h.daemon.resident()
	for _, c := range open {
		_ = c.Close()
	}
	group.Wait()
	if err := errors.Join(append(errs, err)...); err != nil {
		return row{}, err
	}
	return row{
		work: fmt.Sprintf("memory of a daemon with %d acts at once", acts), ours: fmt.Sprintf("%.1f MiB", float64(memory)/(1<<20)),
		goal: "<= 512 MiB", within: memory <= goal,
	}, nil
}
