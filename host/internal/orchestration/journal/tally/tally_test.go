package tally_test

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal/tally"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal/tally/tallytest"
	"github.com/fermenthq/ferment/sdk/edn"
)

var boot = tallytest.Boot

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

// check compares counts with what a stream has to give.
func check(t require.TestingT, w tallytest.Recount, c *tally.Counts) {
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
	assert.Equal(t, positive(w.Acts), c.By(tally.Acts, 1))
	assert.Equal(t, positive(w.Operations), c.By(tally.Operations, 1))
	assert.Equal(t, w.Ended, c.Total(tally.Attempts))
	assert.Equal(t, w.JudgeErr, c.Having(tally.JudgeVerdicts, 0, "error"))
	kpi, operations := c.KPI(), sum(w.Operations)
	for key, want := range map[string]string{
		"parse-rate":             ratio(w.Ended-w.Misread, w.Ended, 4),
		"retry-rate":             ratio(w.Retries, operations, 4),
		"fallback-rate":          ratio(w.Switches, operations, 4),
		"judge-pass-rate":        ratio(w.JudgePass, w.JudgePass+w.JudgeFail, 4),
		"must-failed-rate":       ratio(w.Must, operations, 4),
		"must-failed-rate-final": ratio(w.MustFinal, operations, 4),
		"cache-hit-rate":         ratio(w.Hits, w.Hits+w.Misses, 4),
		"accepted-cost":          ratio(w.Cost, w.Operations["committed"]*1000, 6),
	} {
		assert.Equal(t, want, kpi.Key(key).String(), key)
	}
	byType := map[string]int64{}
	for k, n := range kpi.Key("failure-taxonomy").Key("by-type").Entries() {
		name, _ := k.AsKeyword()
		byType[name], _ = n.AsInt()
	}
	assert.Equal(t, w.Failures, byType)
	total := int64(0)
	for _, n := range kpi.Key("failure-taxonomy").Key("by-domain").Entries() {
		one, _ := n.AsInt()
		total += one
	}
	assert.Equal(t, sum(w.Failures), total)
}

// checkTrail compares the rows of the audit trail, one for each run that ended.
func checkTrail(t require.TestingT, w tallytest.Recount, records []journal.Record) {
	runs, rows := map[string][]journal.Record{}, map[string]int64{}
	for _, rec := range records {
		runs[rec.Run] = append(runs[rec.Run], rec)
		if _, ended := rec.Body.(*journal.RunFinished); !ended {
			continue
		}
		act := journal.ActOf(runs[rec.Run])
		require.NotNil(t, act, rec.Run)
		name := act.Intent + " " + act.Status
		assert.Equal(t, act.ErrorType != "", act.Outcome == journal.ActError)
		if act.ErrorType != "" {
			name += " " + act.ErrorType
		}
		rows[name]++
	}
	assert.Equal(t, w.Rows, rows)
}

// TEL-002, TEL-003: the KPIs of any stream of records are those of a naive recount, read as a
// period or counted live, and so is the audit trail; the live counters never fall, and records that were
// observed before a meter began are not counted again.
func TestKPIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := tallytest.Draw(t)
		m := tally.NewMeter(boot)
		var last *tally.Counts
		for _, rec := range s.Records {
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
		check(t, s.Want, live)
		checkTrail(t, s.Want, s.Records)
		check(t, s.Want, read(s.Records, boot, s.At.Add(time.Millisecond)))
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
		s := tallytest.Draw(t)
		begin := boot.Add(time.Duration(rapid.IntRange(0, 60_000).Draw(t, "begin")) * time.Millisecond)
		m := tally.NewMeter(begin)
		var past []journal.Record
		for _, rec := range s.Records {
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
		now := s.At.Add(time.Millisecond)
		total, since := m.Total()
		assert.Equal(t, begin, since)
		same(t, read(s.Records, begin, now), total)
		for _, length := range []time.Duration{tally.ShortWindow, tally.LongWindow} {
			window, since := m.Window(now, length)
			same(t, read(s.Records, since, now), window)
		}
		middle := boot.Add(now.Sub(boot) / 2)
		both := read(s.Records, boot, middle)
		both.Merge(read(s.Records, middle, now))
		same(t, read(s.Records, boot, now), both)
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
				if ms < 1<<power {
					below++
				}
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
