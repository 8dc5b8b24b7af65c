package tally_test

import (
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal/tally"
	"github.com/fermenthq/ferment/host/internal/runtime/telemetry"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

var boot = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// stream draws the records of runs whose records interleave, and writes down beside
// them what they count: a second way to the same numbers.
type stream struct {
	t       *rapid.T
	at      time.Time
	records []journal.Record
	seq     map[string]int
	epoch   map[string]int
	want    recount
}

// recount is what the generator knows without reading records.
type recount struct {
	acts                              map[string]int64 // by status
	rows                              map[string]int64 // runs by intent, status and error type
	operations                        map[string]int64 // by outcome
	ended, misread, retries, switches int64
	judgePass, judgeFail, judgeErr    int64
	must, mustFinal, hits, misses     int64
	failures                          map[string]int64
	cost                              int64 // in thousandths of a USD
}

func (s *stream) put(run string, path edn.Value, body journal.Body) {
	s.at = s.at.Add(time.Duration(rapid.IntRange(0, 20_000).Draw(s.t, "later")) * time.Millisecond)
	s.seq[run]++
	rec := journal.Record{Run: run, Seq: s.seq[run], At: s.at, Epoch: s.epoch[run], Path: path, Node: "n", Body: body}
	if path.IsNil() {
		rec.Node = ""
	}
	s.records = append(s.records, rec)
}

func (s *stream) bool(label string) bool { return rapid.Bool().Draw(s.t, label) }

func (s *stream) failure(of ...string) *contract.Error {
	return contract.Errorf(rapid.SampledFrom(of).Draw(s.t, "type"), "no")
}

// run draws one run, which is cut and continued at times.
func (s *stream) run(id string) {
	s.seq[id], s.epoch[id] = 0, 1
	intent := "a/" + rapid.SampledFrom([]string{"one", "two"}).Draw(s.t, "intent")
	s.put(id, edn.Nil(), &journal.RunAccepted{Intent: intent, Class: "sync"})
	s.put(id, edn.Nil(), &journal.RunStarted{Host: "h", Boot: "1"})
	failed := false
	for n := range rapid.IntRange(0, 3).Draw(s.t, "nodes") {
		failed = s.operation(id, edn.Vector(edn.Int(int64(n))))
		if failed {
			break
		}
	}
	status := "completed"
	fin := &journal.RunFinished{}
	if failed {
		status, fin.Err = "failed", s.failure("eval/must-failed", "runtime/invoke-failed")
	}
	if s.bool("cacheable") {
		fin.Cache = rapid.SampledFrom([]string{"hit", "miss", "bypass"}).Draw(s.t, "cache")
		s.want.hits += count(fin.Cache == "hit")
		s.want.misses += count(fin.Cache == "miss")
	}
	fin.Status = status
	s.put(id, edn.Nil(), fin)
	s.want.acts[status]++
	s.want.rows[row(intent, status, fin.Err)]++
}

// row names a kind of ended act.
func row(intent, status string, err *contract.Error) string {
	if err == nil {
		return intent + " " + status
	}
	return intent + " " + status + " " + err.Type
}

func count(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// operation draws one execution of a node and reports whether it failed.
func (s *stream) operation(id string, path edn.Value) (failed bool) {
	s.put(id, path, &journal.NodeResolved{Op: "call", Intent: "a/asked"})
	capID, anyMust, lastMust := "", false, false
	for n := range rapid.IntRange(0, 4).Draw(s.t, "attempts") {
		if n > 0 && rapid.IntRange(0, 4).Draw(s.t, "cut") == 0 { // the host ends and another one goes on
			s.epoch[id]++
			s.put(id, edn.Nil(), &journal.RunResumed{Host: "h", Boot: "2", Why: journal.ResumedCrash})
			s.put(id, path, &journal.NodeResolved{Op: "call", Intent: "a/asked"})
		}
		before := capID
		capID = "c/" + rapid.SampledFrom([]string{"x", "y"}).Draw(s.t, "capability")
		start := &journal.AttemptStarted{Attempt: n + 1, CapID: capID}
		if rapid.IntRange(0, 5).Draw(s.t, "race") == 0 {
			start.Entrant = "race"
		} else if n > 0 {
			s.want.retries += count(before == capID)
			s.want.switches += count(before != capID)
		}
		s.put(id, path, start)
		lastMust = s.outcome(id, path, n+1)
		anyMust = anyMust || lastMust
	}
	s.want.must += count(anyMust)
	s.want.mustFinal += count(lastMust)
	outcome := rapid.SampledFrom([]string{"committed", "committed", "kept", "failed"}).Draw(s.t, "outcome")
	s.want.operations[outcome]++
	if outcome != "failed" {
		done := &journal.NodeCommitted{}
		if outcome == "kept" {
			done.FailureType = "provider/odd"
			s.want.failures[done.FailureType]++
		}
		s.put(id, path, done)
		return false
	}
	err := s.failure("eval/must-failed", "provider/quota", "mine/own")
	s.want.failures[err.Type]++
	s.put(id, path, &journal.NodeFailed{Err: err})
	return true
}

// outcome draws the end of an attempt and its verdicts; it reports whether a must
// verdict failed.
func (s *stream) outcome(id string, path edn.Value, number int) (must bool) {
	end := &journal.AttemptFinished{Attempt: number, Outcome: "ok", Usage: edn.MustMap(),
		Latency: time.Duration(rapid.IntRange(0, 5000).Draw(s.t, "ms")) * time.Millisecond}
	price := int64(rapid.IntRange(0, 9).Draw(s.t, "price"))
	usd, err := edn.Decimal(big.NewInt(price), -3)
	require.NoError(s.t, err)
	settled := &journal.BudgetSettled{
		Of:     &journal.BudgetReserved{For: "attempt", Attempt: number},
		Amount: edn.MustMap(edn.K("usd"), usd),
	}
	s.want.cost += price
	switch rapid.IntRange(0, 2).Draw(s.t, "how the cost is known") {
	case 0:
		end.Usage = edn.MustMap(edn.K("cost-usd"), usd)
		defer s.put(id, path, settled) // says the same again
	case 1:
		s.put(id, path, settled)
	case 2:
		defer s.put(id, path, settled)
	}
	misread := false
	if rapid.IntRange(0, 3).Draw(s.t, "error") == 0 {
		end.Outcome, end.Err = "error", s.failure("schema/invalid", "format/drift", "runtime/invoke-failed")
		misread = end.Err.Type != "runtime/invoke-failed"
	}
	s.put(id, path, end)
	s.want.ended++
	for range rapid.IntRange(0, 3).Draw(s.t, "verdicts") {
		v := &journal.GateVerdict{
			Attempt: number, Gate: rapid.SampledFrom([]string{"schema-valid", "good"}).Draw(s.t, "gate"),
			Severity: rapid.SampledFrom([]string{"must", "should"}).Draw(s.t, "severity"),
			Tier:     rapid.SampledFrom([]int{0, 3}).Draw(s.t, "tier"), Pass: s.bool("pass"),
			NotApplicable: rapid.IntRange(0, 5).Draw(s.t, "applies") == 0,
		}
		if !v.Pass && s.bool("gate fails") {
			v.Err = contract.Errorf("judge/failed", "no")
		}
		s.put(id, path, v)
		if v.NotApplicable {
			continue
		}
		if v.Tier == 3 {
			s.want.judgeErr += count(v.Err != nil)
			s.want.judgePass += count(v.Err == nil && v.Pass)
			s.want.judgeFail += count(v.Err == nil && !v.Pass)
		}
		failed := !v.Pass && v.Severity == "must"
		must = must || failed
		misread = misread || failed && v.Gate == "schema-valid"
	}
	s.want.misread += count(misread)
	return must
}

func draw(t *rapid.T) *stream {
	s := &stream{t: t, at: boot, seq: map[string]int{}, epoch: map[string]int{},
		want: recount{acts: map[string]int64{}, rows: map[string]int64{}, operations: map[string]int64{}, failures: map[string]int64{}}}
	for n := range rapid.IntRange(0, 6).Draw(t, "runs") {
		s.run(fmt.Sprintf("run_%d", n))
	}
	for range rapid.IntRange(0, 3).Draw(t, "rejected") {
		err := s.failure("auth/forbidden", "queue/disabled")
		s.put(journal.HostRun, edn.Nil(), &journal.ActRejected{Operation: "http.v1/act", Trace: edn.MustMap(), Err: err})
		s.want.failures[err.Type]++
		s.want.acts["rejected"]++
	}
	return s
}

// ratio is the expected rate, as KPI writes it.
func ratio(n, of int64, places int) string {
	if of == 0 {
		return "nil"
	}
	f, _ := big.NewRat(n, of).Float64()
	scaled, err := edn.Decimal(big.NewInt(int64(f*float64(pow10(places))+0.5)), -places)
	if err != nil {
		return err.Error()
	}
	return scaled.String()
}

func pow10(n int) int64 {
	p := int64(1)
	for range n {
		p *= 10
	}
	return p
}

func (w recount) check(t require.TestingT, c *tally.Counts) {
	sum := func(m map[string]int64) (n int64) {
		for _, one := range m {
			n += one
		}
		return n
	}
	positive := func(m map[string]int64) map[string]int64 {
		maps.DeleteFunc(m, func(_ string, n int64) bool { return n == 0 })
		return m
	}
	assert.Equal(t, positive(w.acts), c.By(tally.Acts, 1))
	assert.Equal(t, positive(w.operations), c.By(tally.Operations, 1))
	assert.Equal(t, w.ended, c.Total(tally.Attempts))
	assert.Equal(t, w.judgeErr, c.Having(tally.JudgeVerdicts, 0, "error"))
	kpi, operations := c.KPI(), sum(w.operations)
	for key, want := range map[string]string{
		"parse-rate":             ratio(w.ended-w.misread, w.ended, 4),
		"retry-rate":             ratio(w.retries, operations, 4),
		"fallback-rate":          ratio(w.switches, operations, 4),
		"judge-pass-rate":        ratio(w.judgePass, w.judgePass+w.judgeFail, 4),
		"must-failed-rate":       ratio(w.must, operations, 4),
		"must-failed-rate-final": ratio(w.mustFinal, operations, 4),
		"cache-hit-rate":         ratio(w.hits, w.hits+w.misses, 4),
		"accepted-cost":          ratio(w.cost, w.operations["committed"]*1000, 6),
	} {
		assert.Equal(t, want, kpi.Key(key).String(), key)
	}
	byType := map[string]int64{}
	for k, n := range kpi.Key("failure-taxonomy").Key("by-type").Entries() {
		name, _ := k.AsKeyword()
		byType[name], _ = n.AsInt()
	}
	assert.Equal(t, w.failures, byType)
	total := int64(0)
	for _, n := range kpi.Key("failure-taxonomy").Key("by-domain").Entries() {
		one, _ := n.AsInt()
		total += one
	}
	assert.Equal(t, sum(w.failures), total)
}

// checkText compares the metrics of counts, in the text that Prometheus reads.
func (w recount) checkText(t require.TestingT, m *tally.Meter) {
	text, err := telemetry.NewMetrics(owner{m}, &telemetry.Commits{}, tally.MaxSeries).Text()
	require.NoError(t, err)
	acts, rows, failures, ended := map[string]int64{}, map[string]int64{}, map[string]int64{}, int64(0)
	for _, found := range sample.FindAllStringSubmatch(string(text), -1) {
		labels := map[string]string{}
		for _, l := range label.FindAllStringSubmatch(found[2], -1) {
			labels[l[1]] = l[2]
		}
		n, err := strconv.ParseInt(found[3], 10, 64)
		require.NoError(t, err)
		switch found[1] {
		case "acts":
			acts[labels["status"]] += n
			rows[labels["intent"]+" "+labels["status"]] += n
		case "failures":
			failures[labels["type"]] += n
		case "attempts":
			ended += n
		}
	}
	byIntent := map[string]int64{}
	for what, n := range w.rows {
		byIntent[strings.Join(strings.Fields(what)[:2], " ")] += n
	}
	for name, n := range byIntent {
		assert.Equal(t, n, rows[name], name)
	}
	assert.Equal(t, w.acts, acts)
	assert.Equal(t, w.failures, failures)
	assert.Equal(t, w.ended, ended)
}

var (
	sample = regexp.MustCompile(`(?m)^ferment_(acts|failures|attempts)_total\{(.*)\} (\S+)$`)
	label  = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// owner has the counts of a meter.
type owner struct{ *tally.Meter }

func (o owner) Counts() *tally.Counts     { c, _ := o.Total(); return c }
func (owner) Samples() []telemetry.Sample { return nil }
func (owner) Known(_, _ string) bool      { return true }

// checkTrail compares the rows of the audit trail, one for each run that ended.
func (w recount) checkTrail(t require.TestingT, records []journal.Record) {
	runs, rows := map[string][]journal.Record{}, map[string]int64{}
	for _, rec := range records {
		runs[rec.Run] = append(runs[rec.Run], rec)
		if _, ended := rec.Body.(*journal.RunFinished); !ended {
			continue
		}
		act := journal.ActOf(runs[rec.Run])
		require.NotNil(t, act, rec.Run)
		name := row(act.Intent, act.Status, nil)
		assert.Equal(t, act.ErrorType != "", act.Outcome == journal.ActError)
		if act.ErrorType != "" {
			name += " " + act.ErrorType
		}
		rows[name]++
	}
	assert.Equal(t, w.rows, rows)
}

// TEL-002, TEL-003: the KPIs of any stream of records are those of a naive recount, read as a
// period or counted live, and so are the metrics and the audit trail; the live counters never fall, and records that were
// observed before a meter began are not counted again.
func TestKPIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		m := tally.NewMeter(boot)
		var last *tally.Counts
		for _, rec := range s.records {
			m.Observe(rec, nil)
			now, _ := m.Total()
			for k, n := range now.N {
				if last != nil && n < last.N[k] {
					t.Fatalf("%v fell from %d to %d", k, last.N[k], n)
				}
			}
			last = now
		}
		live, _ := m.Total()
		s.want.check(t, live)
		s.want.checkText(t, m)
		s.want.checkTrail(t, s.records)
		s.want.check(t, read(s.records, boot, s.at.Add(time.Millisecond)))
	})
}

// read counts a period as "runs stats" does.
func read(records []journal.Record, since, until time.Time) *tally.Counts {
	runs := map[string][]journal.Record{}
	for _, rec := range records {
		runs[rec.Run] = append(runs[rec.Run], rec)
	}
	c := &tally.Counts{}
	for _, id := range slices.Sorted(maps.Keys(runs)) {
		c.Read(runs[id], since, until, "running")
	}
	return c
}

// TEL-003: a window of the meter, the records of the same period, and the sum of its
// parts have equal counts, durations and costs; a meter that begins in the middle of
// runs counts only what follows.
func TestPeriods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		begin := boot.Add(time.Duration(rapid.IntRange(0, 60_000).Draw(t, "begin")) * time.Millisecond)
		m := tally.NewMeter(begin)
		var past []journal.Record
		for _, rec := range s.records {
			if rec.At.Before(begin) {
				past = append(past, rec)
				continue
			}
			m.Observe(rec, func() (of []journal.Record) {
				for _, old := range past {
					if old.Run == rec.Run {
						of = append(of, old)
					}
				}
				return of
			})
		}
		now := s.at.Add(time.Millisecond)
		total, since := m.Total()
		assert.Equal(t, begin, since)
		same(t, read(s.records, begin, now), total)
		for _, length := range []time.Duration{tally.ShortWindow, tally.LongWindow} {
			window, since := m.Window(now, length)
			same(t, read(s.records, since, now), window)
		}
		middle := boot.Add(now.Sub(boot) / 2)
		both := read(s.records, boot, middle)
		both.Merge(read(s.records, middle, now))
		same(t, read(s.records, boot, now), both)
	})
}

func same(t require.TestingT, want, got *tally.Counts) {
	assert.Equal(t, want.N, got.N)
	assert.Equal(t, len(want.Times), len(got.Times))
	for k, d := range want.Times {
		other := got.Times[k]
		require.NotNil(t, other, "%v", k)
		assert.Equal(t, []any{d.Count, d.Sum, d.Percentile(50), d.Percentile(95), d.Below(8)},
			[]any{other.Count, other.Sum, other.Percentile(50), other.Percentile(95), other.Below(8)}, "%v", k)
	}
	require.Equal(t, want.Spent() == nil, got.Spent() == nil)
	if want.Spent() != nil {
		assert.Zero(t, want.Spent().Cmp(got.Spent()))
	}
}

// TEL-003: an attempt that a replay takes from the records of another run is counted
// in that run only, with its verdicts and its operation.
func TestReplayedAttempts(t *testing.T) {
	path := edn.Vector(edn.Int(0))
	var records []journal.Record
	for _, recorded := range []bool{false, true} {
		run := fmt.Sprintf("run_%v", recorded)
		for i, body := range []journal.Body{
			&journal.RunAccepted{Intent: "a/b"}, &journal.NodeResolved{Op: "call", Intent: "a/b"},
			&journal.AttemptStarted{Attempt: 1, CapID: "c/x", Recorded: recorded},
			&journal.AttemptFinished{Attempt: 1, Outcome: "ok", Usage: edn.MustRead("{:cost-usd 1M}")},
			&journal.GateVerdict{Attempt: 1, Gate: "good", Severity: "must", Pass: true},
			&journal.NodeCommitted{}, &journal.RunFinished{Status: "completed"},
		} {
			records = append(records, journal.Record{Run: run, Seq: i + 1, Epoch: 1, At: boot, Path: path, Node: "n", Body: body})
		}
	}
	c := read(records, boot, boot.Add(time.Second))
	assert.Equal(t, "{:by-status {:completed 2} :cost-usd 1M :latency-ms {:p50 0 :p95 0} :total 2}", c.Value().Key("runs").String())
	for _, name := range []tally.Name{tally.Operations, tally.Attempts, tally.Verdicts} {
		assert.EqualValues(t, 1, c.Total(name), name)
	}
}

// TEL-004: the number of series is bounded whatever names records have; what is above
// the limit is counted under one name.
func TestSeriesAreBounded(t *testing.T) {
	m := tally.NewMeter(boot)
	const runs = tally.MaxSeries + 500
	for n := range runs {
		id := fmt.Sprintf("run_%d", n)
		m.Observe(journal.Record{Run: id, Seq: 1, At: boot, Body: &journal.RunAccepted{Intent: fmt.Sprintf("a/%d", n)}}, nil)
		m.Observe(journal.Record{Run: id, Seq: 2, At: boot, Body: &journal.RunFinished{Status: "completed"}}, nil)
	}
	c, _ := m.Total()
	assert.Len(t, c.Series(tally.Acts), tally.MaxSeries)
	assert.Len(t, c.Series(tally.ActTime), tally.MaxSeries)
	assert.EqualValues(t, runs, c.Total(tally.Acts))
	assert.EqualValues(t, 501, c.Having(tally.Acts, 0, tally.Other))
	assert.EqualValues(t, runs, c.TimesOf(tally.ActTime, "").Count)
}

// A percentile is exact below 32 ms and at most a sixteenth too high above; the counts
// below powers of two are exact.
func TestDurations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Int64Range(0, 90_000_000), 1, 50).Draw(t, "ms")
		c := &tally.Counts{}
		for _, ms := range all {
			c.ReadFacts("a/b", "completed", "", time.Duration(ms)*time.Millisecond, edn.Nil())
		}
		d := c.TimesOf(tally.ActTime, "")
		slices.Sort(all)
		for _, p := range []int{1, 50, 95, 100} {
			want := all[(len(all)*p+99)/100-1]
			got := d.Percentile(p).Milliseconds()
			require.GreaterOrEqual(t, got, want)
			require.LessOrEqual(t, got, want+want/16)
		}
		for power := range 28 {
			below := int64(0)
			for _, ms := range all {
				below += count(ms < 1<<power)
			}
			require.Equal(t, below, d.Below(power), power)
		}
	})
}

func BenchmarkObserve(b *testing.B) {
	m := tally.NewMeter(boot)
	path := edn.Vector(edn.Int(0))
	bodies := []journal.Body{
		&journal.RunAccepted{Intent: "a/b"}, &journal.RunStarted{}, &journal.PlanResolved{}, &journal.NodeResolved{Op: "call", Intent: "a/b"},
		&journal.AttemptStarted{Attempt: 1, CapID: "c/x"},
		&journal.AttemptFinished{Attempt: 1, Outcome: "ok", Usage: edn.MustRead("{:cost-usd 1M}")},
		&journal.GateVerdict{Attempt: 1, Gate: "good", Severity: "must", Pass: true},
		&journal.NodeCommitted{}, &journal.RunFinished{Status: "completed"},
	}
	for i := 0; b.Loop(); i++ {
		m.Observe(journal.Record{Run: "run_1", Seq: i%len(bodies) + 1, Epoch: 1, At: boot, Path: path, Node: "n", Body: bodies[i%len(bodies)]}, nil)
	}
}
