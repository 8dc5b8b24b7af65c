package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal/tally"
	"github.com/fermenthq/ferment/host/internal/runtime/telemetry"
	"github.com/fermenthq/ferment/sdk/edn"
)

// otelConfig is appended to durableConfig to export the spans of all runs.
const otelConfig = `
telemetry {
  otel {
    enabled  = true
    endpoint = %q
    protocol = "http"
    sample   = 1
  }
}
`

// observed measures the cost of metrics, audit trail and tracing per act.
func observed(p pace) ([]row, error) {
	takes := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer takes.Close()
	dead, err := net.Listen("tcp", "127.0.0.1:0") // it accepts connections but never answers
	if err != nil {
		return nil, err
	}
	defer func() { _ = dead.Close() }()
	plain, err := startDurable("0")
	if err != nil {
		return nil, err
	}
	defer plain.close()
	traced, err := startDaemon(durableConfig+otelConfig, "0", takes.URL)
	if err != nil {
		return nil, err
	}
	defer traced.close()
	deaf, err := startDaemon(durableConfig+otelConfig, "0", "http://"+dead.Addr().String())
	if err != nil {
		return nil, err
	}
	defer deaf.close()
	body := []byte(`{:proto 1 :trace {:id "bench"} :task {:intent :bench/echo} :input {:text "plain words"}}`)
	n := max(20, p.calls/10)
	failed := 0
	took, err := inTurns(p, n,
		func() error { return plain.act(body) },
		func() error { return traced.act(body) },
		func() error {
			if deaf.act(body) != nil {
				failed++
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	added, err := countedAndAudited(n)
	if err != nil {
		return nil, err
	}
	scrape, err := scraped()
	if err != nil {
		return nil, err
	}
	return []row{
		against("metrics and audit of an act", added, "the act, p50", took[0], 0.03),
		against("act, every run traced, p50", took[1], "without traces", took[0], 1.10),
		against("act, the collector does not answer, p50", took[2], "without traces", took[0], 0),
		{work: "acts that fail while the collector does not answer", ours: fmt.Sprint(failed), goal: "0", within: failed == 0},
		atMost("scrape of 2,000 series", scrape, 20*time.Millisecond),
	}, nil
}

// actRecords returns the records of an act with one attempt and one gate.
func actRecords(run string) []journal.Record {
	path, at := edn.Vector(edn.Int(0)), time.Now()
	value := journal.RefTo(edn.MustRead(`{:text "plain words"}`))
	hash := edn.Hash(edn.Int(1))
	var out []journal.Record
	for i, body := range []journal.Body{
		&journal.RunAccepted{Principal: "user/1", PrincipalType: "simple", Roles: []string{"role/user"}, Operation: "http.v1/act", Intent: "bench/echo",
			Request: value, Fingerprint: value, ResponseType: "value", Class: "sync", DeadlineAt: at.Add(time.Minute), Config: hash, Evaluator: 1,
			Trace: edn.MustRead(`{:id "bench"}`)},
		&journal.RunStarted{Host: "h", Boot: "b", Config: hash},
		&journal.NodeResolved{Op: "call", Intent: "bench/echo", Candidates: []journal.Candidate{{CapID: "bench/echo"}}, Policy: "declared", Strategy: "cascade"},
		&journal.AttemptStarted{Attempt: 1, CapID: "bench/echo", CapVersion: "1.0.0", Request: value, Effects: []string{"none"}, Recovery: "none", EffectKey: hash},
		&journal.AttemptFinished{Attempt: 1, Outcome: "ok", Latency: time.Millisecond, Usage: edn.MustMap(), Result: value, ResultType: "value"},
		&journal.GateVerdict{Attempt: 1, Gate: "schema-valid", Severity: "must", Pass: true},
		&journal.NodeCommitted{Value: value, CapID: "bench/echo", Attempt: 1},
		&journal.RunFinished{Status: "completed", Response: value, Executed: true, Latency: time.Millisecond, Totals: edn.MustMap()},
	} {
		out = append(out, journal.Record{Run: run, Seq: i + 1, At: at, Epoch: 1, Path: path, Node: "n", Body: body})
	}
	return out
}

// countedAndAudited returns the time per act for its metrics and its row in the audit trail, which
// are part of its commit. It is measured in one transaction with the rows of many acts.
func countedAndAudited(acts int) (time.Duration, error) {
	site, err := newDaemonSite("")
	if err != nil {
		return 0, err
	}
	defer site.close()
	s, err := store.Open(context.Background(), store.Options{Path: filepath.Join(site.dir, "ferment.db")})
	if err != nil {
		return 0, err
	}
	defer func() { _ = s.Close() }()
	meter, stream := tally.NewMeter(time.Now()), s.HostStream()
	all := make([][]journal.Record, acts)
	for i := range all {
		all[i] = actRecords(fmt.Sprintf("run_%d", i))
	}
	var wait func(context.Context) error
	began := time.Now()
	for _, records := range all {
		for _, rec := range records {
			meter.Observe(rec, nil)
		}
		if wait, err = stream.Record(context.Background(), time.Now(), journal.ActOf(records)); err != nil {
			return 0, err
		}
	}
	if err := wait(context.Background()); err != nil {
		return 0, err
	}
	return time.Since(began) / time.Duration(acts), nil
}

// manySeries is a telemetry.Owner with the counts of a meter.
type manySeries struct{ meter *tally.Meter }

func (m manySeries) Counts() *tally.Counts     { counts, _ := m.meter.Total(); return counts }
func (manySeries) Samples() []telemetry.Sample { return nil }
func (manySeries) Known(string, string) bool   { return true }

// scraped returns the median time of a scrape of 2,000 series.
func scraped() (time.Duration, error) {
	const series = 2000
	meter := tally.NewMeter(time.Unix(0, 0))
	for i := range series / 40 { // an intent has two histograms of 18 series each, and some counters
		for _, rec := range actRecords(fmt.Sprintf("run_%d", i)) {
			switch b := rec.Body.(type) {
			case *journal.RunAccepted:
				b.Intent = fmt.Sprintf("bench/i%d", i)
			case *journal.NodeResolved:
				b.Intent = fmt.Sprintf("bench/i%d", i)
			}
			meter.Observe(rec, nil)
		}
	}
	m := telemetry.NewMetrics(manySeries{meter}, &telemetry.Commits{}, series)
	var took []time.Duration
	for range 7 {
		began := time.Now()
		if _, err := m.Text(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
	}
	return median(took), nil
}
