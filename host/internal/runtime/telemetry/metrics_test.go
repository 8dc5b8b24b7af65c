package telemetry_test

import (
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal/tally"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal/tally/tallytest"
	"github.com/fermenthq/ferment/host/internal/runtime/telemetry"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// owner has the counts of a meter and knows the names in known.
type owner struct {
	meter   *tally.Meter
	samples []telemetry.Sample
	known   map[string]bool
}

func (o *owner) Counts() *tally.Counts       { c, _ := o.meter.Total(); return c }
func (o *owner) Samples() []telemetry.Sample { return o.samples }
func (o *owner) Known(_, value string) bool  { return o.known == nil || o.known[value] }

var at = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// run records one act of an intent with one attempt that fails with an error type.
func (o *owner) run(id, intent, capability, gate, typ string) {
	path := edn.Vector(edn.Int(0))
	for i, body := range []journal.Body{
		&journal.RunAccepted{Intent: intent, Class: "sync"}, &journal.RunStarted{}, &journal.NodeResolved{Op: "call", Intent: intent},
		&journal.AttemptStarted{Attempt: 1, CapID: capability},
		&journal.AttemptFinished{Attempt: 1, Outcome: "ok", Latency: 700 * time.Millisecond, Usage: edn.MustRead("{:cost-usd 0.5M}")},
		&journal.GateVerdict{Attempt: 1, Gate: gate, Severity: "must"},
		&journal.NodeFailed{Err: contract.Errorf(typ, "no")},
		&journal.RunFinished{Status: "failed", Err: contract.Errorf(typ, "no"), Cache: "miss", Latency: time.Second},
	} {
		o.meter.Observe(journal.Record{Run: id, Seq: i + 1, Epoch: 1, At: at, Path: path, Node: "n", Body: body}, nil)
	}
}

// series returns the values of a text by series, as it writes them.
func series(t require.TestingT, text string) map[string]float64 {
	out := map[string]float64{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if ok {
			name += "}"
		} else {
			name, value, ok = strings.Cut(strings.TrimSpace(line), " ")
		}
		require.True(t, ok, line)
		n, err := strconv.ParseFloat(value, 64)
		require.NoError(t, err, line)
		_, twice := out[name]
		require.False(t, twice, line)
		out[name] = n
	}
	return out
}

func textOf(t require.TestingT, m *telemetry.Metrics) string {
	text, err := m.Text()
	require.NoError(t, err)
	return string(text)
}

// sampled is one sample of every family that has an owner.
func sampled() (all []telemetry.Sample) {
	for _, f := range telemetry.Families() {
		if f.Owned() {
			labels := make([]string, len(f.Labels))
			for i, l := range f.Labels {
				labels[i] = l + "-1"
			}
			all = append(all, telemetry.Sample{Family: f.Name, Labels: labels, Value: 7})
		}
	}
	return all
}

// TEL-004: every metric that the specification names is there with its labels, beside
// others, and those of the Go process.
func TestMetrics(t *testing.T) {
	o := &owner{meter: tally.NewMeter(at), samples: sampled()}
	var commits telemetry.Commits
	commits.Add(5, 1000, 300*time.Microsecond)
	commits.AddDamage()
	m := telemetry.NewMetrics(o, &commits, 2000)
	o.run("run_1", "a/b", "c/x", "good", "eval/must-failed")
	got := series(t, textOf(t, m))
	for want, n := range map[string]float64{
		`ferment_acts_total{intent="a/b",status="failed"}`:                        1,
		`ferment_operation_duration_seconds_count{intent="a/b"}`:                  1,
		`ferment_attempts_total{capability="c/x",intent="a/b",outcome="ok"}`:      1,
		`ferment_gate_verdicts_total{gate="good",severity="must",verdict="fail"}`: 1,
		`ferment_retries_total`:                                                0,
		`ferment_fallbacks_total`:                                              0,
		`ferment_failures_total{type="eval/must-failed"}`:                      1,
		`ferment_queue_depth{class="class-1"}`:                                 7,
		`ferment_queue_wait_seconds_count{class="sync"}`:                       1,
		`ferment_journal_commit_seconds_count`:                                 1,
		`ferment_journal_commit_seconds_bucket{le="0.0002"}`:                   0,
		`ferment_journal_commit_seconds_bucket{le="0.0004"}`:                   1,
		`ferment_journal_batch_records_sum`:                                    5,
		`ferment_journal_bytes_total`:                                          1000,
		`ferment_journal_damaged`:                                              1,
		`ferment_cache_lookups_total{result="miss"}`:                           1,
		`ferment_budget_amount{scope="scope-1",state="state-1",unit="unit-1"}`: 7,
		`ferment_sessions{state="state-1"}`:                                    7,
		`ferment_plugin_state{capability="capability-1",state="state-1"}`:      7,
		`ferment_plugin_restarts_total{reason="reason-1"}`:                     7,
		`ferment_runs{status="status-1"}`:                                      7,
		`ferment_sse_subscribers`:                                              7,
		`ferment_otel_dropped_total{signal="signal-1"}`:                        7,
		`ferment_auth_failures_total{reason="reason-1"}`:                       7,
		`ferment_build_info{goversion="goversion-1",version="version-1"}`:      7,
		`ferment_attempt_cost_usd_total{capability="c/x"}`:                     0.5,
		`ferment_attempt_duration_seconds_bucket{capability="c/x",le="0.512"}`: 0,
		`ferment_attempt_duration_seconds_bucket{capability="c/x",le="1.024"}`: 1,
		`ferment_act_duration_seconds_sum{intent="a/b"}`:                       1,
	} {
		v, ok := got[want]
		assert.True(t, ok, want)
		assert.InDelta(t, n, v, 1e-9, want)
	}
	assert.Contains(t, got, "go_goroutines")
	for _, f := range telemetry.Families() {
		assert.Regexp(t, `^ferment_[a-z_]+$`, f.Name)
		assert.Equal(t, f.Kind == telemetry.Counter, strings.HasSuffix(f.Name, "_total"), f.Name)
	}
}

// TEL-004: labels come from the configuration and the catalogue only, and no metric has
// more series than the limit, whatever records say; no counter ever falls, and no count
// is lost.
func TestLabelsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(60, 200).Draw(t, "limit")
		o := &owner{meter: tally.NewMeter(at)}
		knows := rapid.Bool().Draw(t, "knows")
		if knows {
			o.known = map[string]bool{"a/1": true, "a/2": true, "eval/must-failed": true}
		}
		m := telemetry.NewMetrics(o, &telemetry.Commits{}, limit)
		names := rapid.SampledFrom([]int{3, 100}).Draw(t, "names")
		last := map[string]float64{}
		runs := 0
		for range 3 {
			for range rapid.IntRange(0, 15).Draw(t, "runs") {
				name := fmt.Sprintf("a/%d", rapid.IntRange(0, names).Draw(t, "name"))
				o.run(fmt.Sprintf("run_%d", runs), name, name, name, "eval/must-failed")
				runs++
			}
			text := textOf(t, m)
			got, lines := series(t, text), map[string]int{}
			for s, n := range got {
				if family := familyOf(s); strings.HasPrefix(s, "ferment_") {
					lines[family]++
					if strings.Contains(s, "_total") || strings.Contains(s, "_bucket") {
						require.GreaterOrEqual(t, n, last[s], s)
					}
				}
				if knows {
					for _, label := range regexp.MustCompile(`(?:intent|capability|gate)="([^"]*)"`).FindAllStringSubmatch(s, -1) {
						require.Contains(t, []string{"a/1", "a/2", "other"}, label[1], s)
					}
				}
			}
			for s := range last {
				require.Contains(t, got, s, "a series that was shown stays")
			}
			last = map[string]float64{}
			acts := 0.0
			for s, n := range got {
				if strings.HasPrefix(s, "ferment_") {
					last[s] = n
				}
				if strings.HasPrefix(s, "ferment_acts_total") {
					acts += n
				}
			}
			require.EqualValues(t, runs, acts)
			for family, n := range lines {
				require.LessOrEqual(t, n, limit, family)
			}
		}
	})
}

// familyOf returns the family of a series.
func familyOf(series string) string {
	name, _, _ := strings.Cut(series, "{")
	for _, part := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, part); ok {
			return base
		}
	}
	return name
}

// TEL-003: the KPIs of GET /diag/telemetry and GET /v1/runs/stats follow from the metrics.
func TestMetricsGiveKPIs(t *testing.T) {
	o := &owner{meter: tally.NewMeter(at)}
	m := telemetry.NewMetrics(o, &telemetry.Commits{}, 2000)
	for n := range 7 {
		o.run(fmt.Sprintf("run_%d", n), "a/b", "c/x", []string{"good", "schema-valid"}[n%2], "eval/must-failed")
	}
	sum := func(prefix string) (total int64) {
		for s, n := range series(t, textOf(t, m)) {
			if strings.HasPrefix(s, prefix) {
				total += int64(n)
			}
		}
		return total
	}
	kpi := o.Counts().KPI()
	attempts, operations := sum("ferment_attempts_total"), sum("ferment_operations_total")
	for key, want := range map[string]*big.Rat{
		"parse-rate":       big.NewRat(attempts-sum("ferment_parse_failures_total"), attempts),
		"retry-rate":       big.NewRat(sum("ferment_retries_total"), operations),
		"must-failed-rate": big.NewRat(sum("ferment_operations_must_failed_total"), operations),
	} {
		got, ok := kpi.Key(key).AsNumber()
		require.True(t, ok, key)
		difference, _ := new(big.Rat).Sub(got, want).Float64()
		assert.InDelta(t, 0, difference, 1e-4, key)
	}
	assert.Equal(t, "{:eval/must-failed 7}", kpi.Key("failure-taxonomy").Key("by-type").String())
}

// TEL-002, TEL-004: the metrics of any stream of records are those of a naive recount.
func TestMetricsAreARecount(t *testing.T) {
	sum := func(of map[string]int64, by func(key string) string) map[string]float64 {
		out := map[string]float64{}
		for key, n := range of {
			if n > 0 {
				out[by(key)] += float64(n)
			}
		}
		return out
	}
	rapid.Check(t, func(t *rapid.T) {
		s := tallytest.Draw(t)
		o := &owner{meter: tally.NewMeter(tallytest.Boot)}
		for _, rec := range s.Records {
			o.meter.Observe(rec, nil)
		}
		acts, rows, failures, ended := map[string]float64{}, map[string]float64{}, map[string]float64{}, 0.0
		text := textOf(t, telemetry.NewMetrics(o, &telemetry.Commits{}, tally.MaxSeries))
		for name, n := range series(t, text) {
			labels := map[string]string{}
			for _, l := range label.FindAllStringSubmatch(name, -1) {
				labels[l[1]] = l[2]
			}
			switch {
			case n == 0:
			case familyOf(name) == "ferment_acts_total":
				acts[labels["status"]] += n
				if labels["status"] != "rejected" {
					rows[labels["intent"]+" "+labels["status"]] += n
				}
			case familyOf(name) == "ferment_failures_total":
				failures[labels["type"]] += n
			case familyOf(name) == "ferment_attempts_total":
				ended += n
			}
		}
		itself := func(key string) string { return key }
		assert.Equal(t, sum(s.Want.Acts, itself), acts)
		assert.Equal(t, sum(s.Want.Rows, func(row string) string { return strings.Join(strings.Fields(row)[:2], " ") }), rows)
		assert.Equal(t, sum(s.Want.Failures, itself), failures)
		assert.InDelta(t, s.Want.Ended, ended, 0)
	})
}

var label = regexp.MustCompile(`(\w+)="([^"]*)"`)

// full is an owner whose families have about 2,000 series in all.
func full() *telemetry.Metrics {
	o := &owner{meter: tally.NewMeter(at), samples: sampled()}
	for n := range 40 {
		name := fmt.Sprintf("a/%d", n)
		o.run("run_"+name, name, name, name, "eval/must-failed")
	}
	return telemetry.NewMetrics(o, &telemetry.Commits{}, 2000)
}

// BenchmarkScrape: 2,000 series take at most 20 ms.
func BenchmarkScrape(b *testing.B) {
	m := full()
	count := len(series(b, textOf(b, m)))
	for b.Loop() {
		if _, err := m.Text(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(count), "series")
}
