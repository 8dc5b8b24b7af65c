package journal_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// drawRun returns records of a run, in any order and with faults.
func drawRun(t *rapid.T, name string) []journal.Record {
	paths := rapid.SampledFrom([]string{`[]`, `[0]`, `[1]`, `[1 "i2" 0]`, `[1 "i10" 0]`, `[0 "p1"]`, `[0 "p1" 0]`})
	var out []journal.Record
	for i := range rapid.IntRange(0, 25).Draw(t, name) {
		rec := at(i+1, drawBody(t))
		rec.Path = edn.MustRead(paths.Draw(t, "path"))
		rec.At = time.Unix(int64(i), 0)
		out = append(out, rec)
	}
	return out
}

// JRN-052: whatever is recorded, a run does not differ from itself, and the
// comparison of swapped runs is the comparison with its sides swapped.
func TestCompareProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawRun(t, "a"), drawRun(t, "b")
		same := journal.Compare(a, a)
		if !same.Equal() || !same.Value().Key("equal?").Truthy() {
			t.Fatalf("a run differs from itself: %s", same.Value())
		}
		there, back := journal.Compare(a, b), journal.Compare(b, a)
		back.A, back.B = back.B, back.A
		for i := range back.Nodes {
			back.Nodes[i].A, back.Nodes[i].B = back.Nodes[i].B, back.Nodes[i].A
		}
		if x, y := there.Value(), back.Value(); !edn.Equal(x, y) {
			t.Fatalf("the order of the runs matters:\n%s\n%s", x, y)
		}
	})
}

// JRN-052: each aspect differs alone where only its records do.
func TestCompareAspects(t *testing.T) {
	for name, tc := range map[string]struct {
		seq    int // of the record that is changed
		change func(journal.Body) journal.Body
		run    string // EDN vector of the aspects of the run
		node   string // of the first node
	}{
		"nothing": {1, func(b journal.Body) journal.Body { return b }, `[]`, `[]`},
		"times, latency and configuration": {1, func(b journal.Body) journal.Body {
			other := *b.(*journal.RunAccepted)
			other.Config, other.Seed, other.DeadlineAt = edn.Hash(edn.Int(2)), 7, time.Unix(10, 0)
			return &other
		}, `[]`, `[]`},
		"request": {1, func(b journal.Body) journal.Body {
			other := *b.(*journal.RunAccepted)
			other.Fingerprint = twoRef
			return &other
		}, `[:request]`, `[]`},
		"plan": {2, func(journal.Body) journal.Body {
			return &journal.PlanResolved{Plan: journal.RefTo(edn.MustRead(`{:nodes [{:op :call :intent :a/b :as :y}]}`)), Source: "request"}
		}, `[:plan]`, `[]`},
		"candidates": {3, func(b journal.Body) journal.Body {
			other := *b.(*journal.NodeResolved)
			other.Rejected = []journal.Rejection{{CapID: "a/three", Reason: "runtime/not-ready"}}
			return &other
		}, `[]`, `[:candidates]`},
		"figures of candidates": {3, func(b journal.Body) journal.Body {
			other := *b.(*journal.NodeResolved)
			other.Candidates = []journal.Candidate{{CapID: "a/one", Figures: figures}, {CapID: "a/two"}}
			return &other
		}, `[]`, `[]`},
		"version": {9, func(b journal.Body) journal.Body {
			other := *b.(*journal.AttemptStarted)
			other.CapVersion = "2"
			return &other
		}, `[]`, `[:pick]`},
		"outcome": {5, func(b journal.Body) journal.Body {
			other := *b.(*journal.AttemptFinished)
			other.Outcome, other.Err = journal.OutcomeError, contract.Errorf("provider/unavailable", "no")
			return &other
		}, `[]`, `[:outcome]`},
		"latency of an attempt": {5, func(b journal.Body) journal.Body {
			other := *b.(*journal.AttemptFinished)
			other.Latency = time.Hour
			return &other
		}, `[]`, `[]`},
		"cost": {10, func(b journal.Body) journal.Body {
			other := *b.(*journal.AttemptFinished)
			other.Usage = edn.MustRead(`{:cost-usd 0.003M}`)
			return &other
		}, `[:cost]`, `[:cost]`},
		"equal cost": {10, func(b journal.Body) journal.Body {
			other := *b.(*journal.AttemptFinished)
			other.Usage = edn.MustRead(`{:cost-usd 0.00200M}`)
			return &other
		}, `[]`, `[]`},
		"findings": {11, func(b journal.Body) journal.Body {
			other := *b.(*journal.GateVerdict)
			other.Findings = twoRef
			return &other
		}, `[]`, `[:verdicts]`},
		"score and value": {12, func(b journal.Body) journal.Body {
			other := *b.(*journal.NodeCommitted)
			other.Score, other.Value = journal.ScoreOf(700), twoRef
			return &other
		}, `[]`, `[:verdicts :value]`},
		"pick": {12, func(b journal.Body) journal.Body {
			other := *b.(*journal.NodeCommitted)
			other.CapID = "a/one"
			return &other
		}, `[]`, `[:pick]`},
		"end of the run": {14, func(b journal.Body) journal.Body {
			other := *b.(*journal.RunFinished)
			other.Status, other.Err = journal.StatusFailed, contract.Errorf("runtime/crashed", "gone")
			return &other
		}, `[:outcome]`, `[]`},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := failover(), failover()
			b[tc.seq-1].Body = tc.change(b[tc.seq-1].Body)
			got := journal.Compare(a, b)
			node, _ := got.Value().Key("nodes").Nth(0)
			assert.Equal(t, tc.run, got.Value().Key("differs").String())
			assert.Equal(t, tc.node, node.Key("differs").String())
			assert.Equal(t, tc.run == "[]" && tc.node == "[]", got.Equal())
		})
	}
}

// JRN-052: nodes are aligned by path, in the order of the plan; a node of one run
// only is a difference.
func TestCompareAligns(t *testing.T) {
	run := func(paths ...string) []journal.Record {
		s := (&story{}).add("", "", samples()[journal.KindRunAccepted])
		for _, path := range paths {
			s.add(path, "n", &journal.NodeCommitted{Value: oneRef})
		}
		return s.records
	}
	got := journal.Compare(run(`[10]`, `[1]`, `[1 "i10" 0]`), run(`[1 "i9" 0]`, `[1]`, `[10]`))
	require.Len(t, got.Nodes, 4)
	var paths []string
	for _, n := range got.Nodes {
		paths = append(paths, n.Path.String())
	}
	assert.Equal(t, []string{`[1]`, `[1 "i9" 0]`, `[1 "i10" 0]`, `[10]`}, paths)
	assert.Empty(t, got.Nodes[0].Differs)
	assert.Equal(t, []string{"node"}, got.Nodes[1].Differs)
	assert.True(t, got.Nodes[1].A.IsNil())
	assert.True(t, got.Nodes[2].B.IsNil())
	assert.False(t, got.Equal())
	assert.Equal(t, ":open", got.A.Key("status").String())
}
