package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver of the bare transaction

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/edn"
)

// durableConfig configures a daemon with a journal on disk and the plugin of this program. If calls
// have a price, the records before a call are on disk before the call is made.
const durableConfig = `ferment {
  profile  = "test"
  data_dir = "var"
}

plugin "bench" {
  command = [%q, "plugin", "one"]
}

capability "bench/echo" {
  plugin = "bench"

  cost {
    usd = %s
  }
}

store {
  driver = "sqlite"
  sync   = "full"
}

http {
  listen = ["127.0.0.1:0"]
}
`

// Numbers of calls in the measured plans. Each call needs the result of the previous one.
const (
	shortPlan = 2
	longPlan  = 22
)

// sequence returns a request with a plan of steps calls, each of which needs the previous one.
func sequence(steps int) []byte {
	var plan strings.Builder
	text := strings.Repeat("plain words and a few more, ", 36)
	fmt.Fprintf(&plan, `{:op :call :id "n0" :intent :bench/echo :input {:text %q} :as :v0}`, text)
	for i := 1; i < steps; i++ {
		fmt.Fprintf(&plan, ` {:op :call :id "n%d" :intent :bench/echo :input {:text {:slot/path [:v%d :out :text]}} :as :v%d}`, i, i-1, i)
	}
	fmt.Fprintf(&plan, ` {:op :emit :input {:text {:slot/path [:v%d :out :text]}}}`, steps-1)
	return fmt.Appendf(nil, `{:proto 1 :trace {:id "bench"} :task {:intent :plan/run} :effects {:allowed #{:none}} :input {:plan {:id "chain" :nodes [%s]}}}`, plan.String())
}

// durableHost is a daemon that is called over HTTP.
type durableHost struct {
	site   *daemonSite
	daemon *running
	http   *service
	admin  *service
}

// service is one address of a daemon, with the client for it.
type service struct {
	url    string
	token  string // empty: no credentials
	client *http.Client
}

func serviceAt(network, address string) *service {
	return &service{url: "http://" + map[string]string{"tcp": address, "unix": "localhost"}[network], client: &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 64,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}}}
}

func startDurable(price string) (*durableHost, error) {
	return startDaemon(durableConfig, price)
}

// startDaemon starts a daemon. config is a format for its configuration; the arguments are the path
// of this program and more.
func startDaemon(config string, more ...any) (h *durableHost, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	site, err := newDaemonSite(fmt.Sprintf(config, append([]any{self}, more...)...))
	if err != nil {
		return nil, err
	}
	h = &durableHost{site: site}
	if h.daemon, _, err = site.serve(); err != nil {
		site.close()
		return nil, err
	}
	for line := range bytes.Lines(h.daemon.said.Bytes()) {
		var l struct{ Listen []string }
		if json.Unmarshal(line, &l) != nil {
			continue
		}
		for _, a := range l.Listen {
			if strings.HasPrefix(a, "/") {
				token, err := os.ReadFile(filepath.Join(site.dir, "var", "run", "admin.token"))
				if err != nil {
					return nil, err
				}
				h.admin = serviceAt("unix", a)
				h.admin.token = strings.TrimSpace(string(token))
			} else {
				h.http = serviceAt("tcp", a)
			}
		}
	}
	go func() { // otherwise the daemon blocks when the pipe is full
		for h.daemon.lines.Scan() { //nolint:revive // to its end
		}
	}()
	return h, nil
}

func (h *durableHost) close() {
	_ = h.daemon.cmd.Process.Kill()
	_ = h.daemon.cmd.Wait()
	h.site.close()
}

// post sends EDN and returns the body of the response, which must have status 200.
func (s *service) post(path string, body []byte) ([]byte, error) {
	return s.send(path, "application/edn", body, http.StatusOK)
}

// send sends a body of the media type form and returns the body of the response, which must have
// the given status.
func (s *service) send(path, form string, body []byte, status int) ([]byte, error) {
	q, err := http.NewRequest(http.MethodPost, s.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	q.Header.Set("Content-Type", form)
	q.Header.Set("Accept", form)
	if s.token != "" {
		q.Header.Set("Authorization", "Bearer "+s.token)
	}
	r, err := s.client.Do(q)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Body.Close() }()
	out, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != status {
		err = fmt.Errorf("status %d: %.500s", r.StatusCode, out)
	}
	return out, err
}

func (h *durableHost) act(body []byte) error {
	_, err := h.http.post("/v1/act", body)
	return err
}

// bareCommit is a database with the same driver and settings that inserts one row per transaction.
type bareCommit struct {
	db   *sql.DB
	row  *sql.Stmt
	body []byte
}

func openBareCommit(dir string) (*bareCommit, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "bare.db")+"?_pragma=journal_mode(wal)&_pragma=synchronous(full)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	b := &bareCommit{db: db, body: make([]byte, 500)}
	if _, err = db.Exec("CREATE TABLE t (n INTEGER PRIMARY KEY, body BLOB)"); err == nil {
		b.row, err = db.Prepare("INSERT INTO t (body) VALUES (?)")
	}
	return b, err
}

func (b *bareCommit) commit() error {
	_, err := b.row.Exec(b.body)
	return err
}

// echoJSON starts a net/http server that returns the JSON it receives.
func echoJSON() (address string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var v any
		if json.NewDecoder(r.Body).Decode(&v) == nil {
			_ = json.NewEncoder(w).Encode(v)
		}
	})}
	go func() { _ = s.Serve(l) }()
	return l.Addr().String(), func() { _ = s.Close() }, nil
}

// durable measures the cost of a journal on disk.
func durable(p pace) ([]row, error) {
	h, err := startDurable("0.001")
	if err != nil {
		return nil, err
	}
	defer h.close()
	free, err := startDurable("0")
	if err != nil {
		return nil, err
	}
	defer free.close()
	b, err := startBare()
	if err != nil {
		return nil, err
	}
	defer b.close()
	disk, err := openBareCommit(h.site.dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = disk.db.Close() }()
	address, stop, err := echoJSON()
	if err != nil {
		return nil, err
	}
	defer stop()
	peer := serviceAt("tcp", address)
	text := strings.Repeat("plain words and a few more, ", 36)
	single := fmt.Appendf(nil, `{:proto 1 :trace {:id "bench"} :task {:intent :bench/echo} :input {:text %q}}`, text)
	asJSON, _ := json.Marshal(map[string]any{"proto": 1, "input": map[string]any{"text": text}})
	short, long := sequence(shortPlan), sequence(longPlan)
	n := max(4, p.calls/30)
	all, err := inTurns(p, n,
		func() error { return free.act(single) },
		func() error { return h.act(short) },
		func() error { return h.act(long) },
		func() error { return b.echo(context.Background(), single) },
		disk.commit,
		func() error {
			r, err := peer.client.Post(peer.url, "application/json", bytes.NewReader(asJSON))
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, r.Body)
			return errors.Join(err, r.Body.Close())
		})
	if err != nil {
		return nil, err
	}
	one, step := all[0], (all[2]-all[1])/(longPlan-shortPlan)
	hop, commit, echo := all[3], all[4], all[5]
	rows := []row{
		against("act 1 KiB over HTTP, full sync, p50", one, "JSON echo + bare go-plugin + bare commit", echo+hop+commit, 2),
		against("durable gated step with a price, p50", step, "1.6 bare go-plugin + 1.5 bare commit", hop*16/10+commit*15/10, 1),
	}
	more, err := manyRuns(p, h, long)
	if err != nil {
		return nil, err
	}
	rows = append(rows, more)
	if more, err = replays(p, h); err != nil {
		return nil, err
	}
	rows = append(rows, more)
	more, err = fullStart(p)
	return append(rows, more), err
}

// inTurns calls each function n times per round, and returns the median time of one call of each.
// The first round only warms up.
func inTurns(p pace, n int, fns ...func() error) ([]time.Duration, error) {
	all := make([][]time.Duration, len(fns))
	for round := range p.rounds + 1 {
		for i, fn := range fns {
			for range n {
				began := time.Now()
				if err := fn(); err != nil {
					return nil, err
				}
				if round > 0 { // the first round warms up
					all[i] = append(all[i], time.Since(began))
				}
			}
		}
	}
	out := make([]time.Duration, len(fns))
	for i := range all {
		out[i] = median(all[i])
	}
	return out, nil
}

// manyRuns measures the steps per second of 16 concurrent runs.
func manyRuns(p pace, h *durableHost, plan []byte) (row, error) {
	const runs, goal = 16, 5000
	each := max(1, p.calls/150)
	var rates []float64
	for range p.rounds {
		var group sync.WaitGroup
		errs := make([]error, runs)
		began := time.Now()
		for i := range runs {
			group.Go(func() {
				for range each {
					errs[i] = errors.Join(errs[i], h.act(plan))
				}
			})
		}
		group.Wait()
		rates = append(rates, float64(runs*each*longPlan)/time.Since(began).Seconds())
		if err := errors.Join(errs...); err != nil {
			return row{}, err
		}
	}
	rate := median(rates)
	return row{
		work: "durable steps of 16 runs at once", ours: fmt.Sprintf("%.0f/s", rate), goal: fmt.Sprintf(">= %d/s", goal), within: rate >= goal,
	}, nil
}

// replays measures the strict replay of a run with many records.
func replays(p pace, h *durableHost) (row, error) {
	const goal = 50_000
	steps := max(10, p.calls/3)
	body, err := h.http.post("/v1/act", sequence(steps))
	if err != nil {
		return row{}, err
	}
	answer, err := edn.Read(body)
	if err != nil {
		return row{}, err
	}
	run, _ := answer.Key("run/id").AsString()
	body = fmt.Appendf(nil, `{:action :runs-replay :run %q :mode :strict}`, run)
	var rates []float64
	for range p.rounds {
		began := time.Now()
		out, err := h.admin.post("/v1/admin", body)
		if err != nil {
			return row{}, fmt.Errorf("replay: %w", err)
		}
		took := time.Since(began)
		v, err := edn.Read(out)
		if err != nil {
			return row{}, err
		}
		records, _ := v.Key("result").Key("records").AsInt()
		rates = append(rates, float64(records)/took.Seconds())
	}
	rate := median(rates)
	return row{
		work: fmt.Sprintf("strict replay of a run of %d steps", steps), ours: fmt.Sprintf("%.0f records/s", rate),
		goal: fmt.Sprintf(">= %d/s", goal), within: rate >= goal,
	}, nil
}

// fullStart compares opening a store of 100,000 finished runs (1,000 in a smoke run) with opening
// an empty one.
func fullStart(p pace) (row, error) {
	runs := 100_000
	if p.rounds < 9 {
		runs = 1000
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return row{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	full, empty := filepath.Join(dir, "full", "ferment.db"), filepath.Join(dir, "empty", "ferment.db")
	open := func(path string) error {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		s, err := store.Open(context.Background(), store.Options{Path: path})
		if err != nil {
			return err
		}
		_, err = s.Unfinished(context.Background())
		return errors.Join(err, s.Close())
	}
	if err := errors.Join(open(empty), fill(full, runs)); err != nil {
		return row{}, err
	}
	took, err := inTurns(p, 5, func() error { return open(full) }, func() error { return open(empty) })
	if err != nil {
		return row{}, err
	}
	return against(fmt.Sprintf("open a store of %d finished runs", runs), took[0], "empty store", took[1], 1.2), nil
}

// fill creates a store of finished runs.
func fill(path string, runs int) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	ctx, at, sum := context.Background(), time.Now().UTC(), edn.Hash(edn.Nil())
	s, err := store.Open(ctx, store.Options{Path: path})
	if err != nil {
		return err
	}
	request := journal.RefTo(edn.MustRead(`{:input {:text "plain words"}}`))
	for i := range runs {
		run := fmt.Sprintf("run_%026d", i)
		log := s.Open(run)
		accepted := &journal.RunAccepted{
			Principal: "uid/7", PrincipalType: "user", Operation: "act/run", Intent: "a/b", Request: request, Fingerprint: request,
			ResponseType: "value", Class: "sync", DeadlineAt: at.Add(time.Minute), Config: sum, Evaluator: 1, Trace: edn.MustMap(),
		}
		finished := &journal.RunFinished{
			Status: journal.StatusCompleted, Response: request, Executed: true, Latency: time.Millisecond,
			Totals: edn.MustRead(`{:operations {} :attempts {}}`),
		}
		for seq, body := range []journal.Body{accepted, finished} {
			err = errors.Join(err, log.Append(ctx, journal.Record{Run: run, Seq: seq + 1, At: at, Epoch: 1, Body: body}))
		}
		if i%1000 == 999 || i == runs-1 {
			err = errors.Join(err, s.Sync(ctx, run))
		}
		s.Drop(run)
		if err != nil {
			return errors.Join(err, s.Close())
		}
	}
	return s.Close()
}
