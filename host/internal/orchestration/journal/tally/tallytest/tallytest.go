package tallytest

import (
	"fmt"
	"math/big"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Boot is the time at which a Stream begins.
var Boot = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// Stream holds random records of runs, and the expected counts, which were added up
// while the records were drawn.
type Stream struct {
	Records []journal.Record
	At      time.Time // of the last record
	Want    Recount

	t     *rapid.T
	seq   map[string]int
	epoch map[string]int
}

// Recount holds the expected counts of a Stream.
type Recount struct {
	Acts                              map[string]int64 // by status
	Rows                              map[string]int64 // runs by intent, status and error type
	Operations                        map[string]int64 // by outcome
	Ended, Misread, Retries, Switches int64            // attempts
	JudgePass, JudgeFail, JudgeErr    int64            // verdicts
	Must, MustFinal                   int64            // operations with a failed must verdict
	Hits, Misses                      int64            // of the cache
	Failures                          map[string]int64 // by error type
	Cost                              int64            // in thousandths of a USD
}

func (s *Stream) put(run string, path edn.Value, body journal.Body) {
	s.At = s.At.Add(time.Duration(rapid.IntRange(0, 20_000).Draw(s.t, "later")) * time.Millisecond)
	s.seq[run]++
	rec := journal.Record{Run: run, Seq: s.seq[run], At: s.At, Epoch: s.epoch[run], Path: path, Node: "n", Body: body}
	if path.IsNil() {
		rec.Node = ""
	}
	s.Records = append(s.Records, rec)
}

func (s *Stream) bool(label string) bool { return rapid.Bool().Draw(s.t, label) }

func (s *Stream) failure(of ...string) *contract.Error {
	return contract.Errorf(rapid.SampledFrom(of).Draw(s.t, "type"), "no")
}

// run draws one run, which sometimes crashes and is resumed.
func (s *Stream) run(id string) {
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
		s.Want.Hits += count(fin.Cache == "hit")
		s.Want.Misses += count(fin.Cache == "miss")
	}
	fin.Status = status
	s.put(id, edn.Nil(), fin)
	s.Want.Acts[status]++
	s.Want.Rows[row(intent, status, fin.Err)]++
}

// row returns the key of Recount.Rows for a finished run.
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
func (s *Stream) operation(id string, path edn.Value) (failed bool) {
	s.put(id, path, &journal.NodeResolved{Op: "call", Intent: "a/asked"})
	capID, anyMust, lastMust := "", false, false
	for n := range rapid.IntRange(0, 4).Draw(s.t, "attempts") {
		if n > 0 && rapid.IntRange(0, 4).Draw(s.t, "cut") == 0 { // crash and resume by another host
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
			s.Want.Retries += count(before == capID)
			s.Want.Switches += count(before != capID)
		}
		s.put(id, path, start)
		lastMust = s.outcome(id, path, n+1)
		anyMust = anyMust || lastMust
	}
	s.Want.Must += count(anyMust)
	s.Want.MustFinal += count(lastMust)
	outcome := rapid.SampledFrom([]string{"committed", "committed", "kept", "failed"}).Draw(s.t, "outcome")
	s.Want.Operations[outcome]++
	if outcome != "failed" {
		done := &journal.NodeCommitted{}
		if outcome == "kept" {
			done.FailureType = "provider/odd"
			s.Want.Failures[done.FailureType]++
		}
		s.put(id, path, done)
		return false
	}
	err := s.failure("eval/must-failed", "provider/quota", "mine/own")
	s.Want.Failures[err.Type]++
	s.put(id, path, &journal.NodeFailed{Err: err})
	return true
}

// outcome draws the end of an attempt and its verdicts; it reports whether a must
// verdict failed.
func (s *Stream) outcome(id string, path edn.Value, number int) (must bool) {
	end := &journal.AttemptFinished{Attempt: number, Outcome: "ok", Usage: edn.MustMap(),
		Latency: time.Duration(rapid.IntRange(0, 5000).Draw(s.t, "ms")) * time.Millisecond}
	price := int64(rapid.IntRange(0, 9).Draw(s.t, "price"))
	usd, err := edn.Decimal(big.NewInt(price), -3)
	require.NoError(s.t, err)
	settled := &journal.BudgetSettled{
		Of:     &journal.BudgetReserved{For: "attempt", Attempt: number},
		Amount: edn.MustMap(edn.K("usd"), usd),
	}
	s.Want.Cost += price
	switch rapid.IntRange(0, 2).Draw(s.t, "how the cost is known") {
	case 0:
		end.Usage = edn.MustMap(edn.K("cost-usd"), usd)
		defer s.put(id, path, settled) // the same cost again
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
	s.Want.Ended++
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
			s.Want.JudgeErr += count(v.Err != nil)
			s.Want.JudgePass += count(v.Err == nil && v.Pass)
			s.Want.JudgeFail += count(v.Err == nil && !v.Pass)
		}
		failed := !v.Pass && v.Severity == "must"
		must = must || failed
		misread = misread || failed && v.Gate == "schema-valid"
	}
	s.Want.Misread += count(misread)
	return must
}

// Draw draws a stream that begins at Boot, with at most 6 runs and 3 rejected acts.
func Draw(t *rapid.T) *Stream {
	s := &Stream{
		At:    Boot,
		t:     t,
		seq:   map[string]int{},
		epoch: map[string]int{},
		Want: Recount{
			Acts:       map[string]int64{},
			Rows:       map[string]int64{},
			Operations: map[string]int64{},
			Failures:   map[string]int64{},
		},
	}
	for n := range rapid.IntRange(0, 6).Draw(t, "runs") {
		s.run(fmt.Sprintf("run_%d", n))
	}
	for range rapid.IntRange(0, 3).Draw(t, "rejected") {
		err := s.failure("auth/forbidden", "queue/disabled")
		s.put(journal.HostRun, edn.Nil(), &journal.ActRejected{Operation: "http.v1/act", Trace: edn.MustMap(), Err: err})
		s.Want.Failures[err.Type]++
		s.Want.Acts["rejected"]++
	}
	return s
}
