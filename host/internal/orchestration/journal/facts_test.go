package journal_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// JRN-052: what is compared and shown of two runs: of the runs themselves, and of each
// node its candidates, attempts, verdicts, costs, end and value.
func TestComparedFacts(t *testing.T) {
	c := journal.Compare(nested(), failover())
	plan := func(c edn.Value) edn.Value { return c.Dissoc(edn.K("plan")) }
	assert.Equal(t, own(`{:accepted-at #inst "1970-01-01T00:00:00.000Z" :config "H1" :cost-usd 0.3M :intent :a/b :operation :act/run
		:request "H1" :run "run_x" :status :open}`).String(), plan(c.A).String())
	assert.Equal(t, own(`{:accepted-at #inst "1970-01-01T00:00:00.000Z" :config "H1" :cost-usd 0.003M :intent :a/b :latency-ms 0
		:operation :act/run :request "H1" :run "run_x" :status :completed}`).String(), plan(c.B).String())
	assert.NotEqual(t, c.A.Key("plan").String(), c.B.Key("plan").String())
	assert.False(t, c.Values, "one of them has no result")

	shown := map[string][2]edn.Value{}
	for _, n := range c.Nodes {
		shown[n.Path.String()] = [2]edn.Value{n.A, n.B}
	}
	assert.Len(t, shown, 16)
	const rejected = `:rejected [{:cap/id :a/none :reason :runtime/not-ready}] :policy :declared :strategy :cascade`
	answer := edn.Hash(edn.MustRead(`{:nodes [{:op :tool :as :inner} {:op :call}]}`))
	finding := edn.Hash(edn.MustRead(`[{:gate :good :message "no"}]`))
	for path, want := range map[string][2]string{
		"[0]": {`{:asked :a/b :candidates [:a/planner :a/one :a/two] ` + rejected + `
			:attempts [{:cap/id :a/planner :cap/version "1" :failure/type :provider/empty :latency-ms 1 :outcome :ok :plan "` + answer + `"}
			 {:cap/id :a/one :cap/version "1" :cost-usd 0.1M :failure/type :schema/invalid :latency-ms 2 :outcome :ok}
			 {:cap/id :a/one :cap/version "1" :failure/type :eval/low-score :latency-ms 3 :outcome :ok}
			 {:cap/id :a/two :cap/version "1" :cost-usd 0.2M :latency-ms 4 :outcome :ok}]
			:verdicts [{:attempt 2 :gate :good :pass false :severity :must} {:attempt 2 :gate :schema-valid :pass false :severity :must}
			 {:attempt 2 :gate :late :pass false :severity :must} {:attempt 3 :gate :schema-valid :pass true :severity :must}
			 {:attempt 4 :gate :good :pass true :severity :must}
			 {:attempt 4 :cap/id :a/judge :gate :graded :pass true :score 0.9M :severity :should}]
			:cap/id :a/two :cap/version "1" :cost-usd 0.3M :latency-ms 250 :node "n0" :op :call :score 0.9M :state :committed :value "H1"}`,
			`{:asked :a/b :candidates [:a/one :a/two] :rejected [] :policy :declared :strategy :cascade
			:attempts [{:cap/id :a/one :cap/version "1" :cost-usd 0.001M :failure/type :runtime/crashed :latency-ms 5 :outcome :unknown}
			 {:cap/id :a/two :cap/version "1" :failure/type :eval/must-failed :latency-ms 0 :outcome :ok}
			 {:cap/id :a/two :cap/version "1" :cost-usd 0.002M :latency-ms 0 :outcome :ok}]
			:verdicts [{:attempt 2 :findings "` + finding + `" :gate :good :pass false :severity :must}
			 {:attempt 3 :cap/id :a/judge :gate :good :pass true :severity :must}]
			:cap/id :a/two :cap/version "1" :cost-usd 0.003M :latency-ms 90 :node "n0" :op :call :score 0.667M :state :committed :value "H1"}`},
		`[0 "a1" 0]`: {`{:asked :a/tool :candidates [:a/tool] ` + rejected + `
			:attempts [{:cap/id :a/tool :cap/version "1" :failure/type :provider/empty :latency-ms 0 :outcome :error}] :verdicts []
			:failure/type :provider/empty :latency-ms 30 :node "p0" :op :tool :state :failed}`, "nil"},
		"[1]": {`{:attempts [] :latency-ms 0 :node "n1" :op :map :plan "` + edn.Hash(edn.MustRead(`[{:op :call :as :item-as}]`)) + `" :state :unfinished
			:verdicts [{:cap/id :a/check :gate :all-good :pass true :severity :should}]}`,
			`{:latency-ms 0 :node "n1" :op :call :state :skipped}`},
		`[1 "i0" 0]`: {`{:asked :a/b :candidates [:a/one] ` + rejected + `
			:attempts [{:cap/id :a/one :cap/version "1" :failure/type :provider/error :latency-ms 0 :outcome :error}] :verdicts []
			:failure/type :provider/error :latency-ms 30 :node "m0" :op :call :state :kept}`, "nil"},
		"[2]": {`{:latency-ms 0 :node "n2" :op :let :score 0.8M :state :committed :value "H1"}`, "nil"},
	} {
		for i, text := range want {
			assert.Equal(t, own(text).String(), shown[path][i].String(), path)
		}
	}
}

// What a report shows of each node as data.
func TestReportedNodes(t *testing.T) {
	all := map[string]string{}
	for _, n := range journal.NewReport(nested()).Nodes {
		all[n.Path.String()] = n.Value().String()
	}
	for path, want := range map[string]string{
		"[0]": `{:answered :a/two :asked :a/b :attempts [{:attempt 1 :cap/id :a/planner :failure/type :provider/empty :latency-ms 1 :message "first" :outcome :ok}
			{:attempt 2 :cap/id :a/one :cost-usd 0.1M :failure/type :schema/invalid :latency-ms 2 :outcome :ok}
			{:attempt 3 :cap/id :a/one :failure/type :eval/low-score :latency-ms 3 :outcome :ok}
			{:attempt 4 :cap/id :a/two :cost-usd 0.2M :latency-ms 4 :outcome :ok}]
			:gates [{:gate :good :pass true :severity :must} {:cap/id :a/judge :gate :graded :pass true :score 0.9M :severity :should}]
			:latency-ms 250 :node "n0" :op :call :path [0] :rejected [{:cap/id :a/none :reason :runtime/not-ready}] :score 0.9M :state :committed}`,
		`[1 "i0" 0]`: `{:asked :a/b :attempts [{:attempt 1 :cap/id :a/one :failure/type :provider/error :latency-ms 0 :message "kept" :outcome :error}]
			:failure/type :provider/error :gates [] :latency-ms 30 :node "m0" :op :call :path [1 "i0" 0]
			:rejected [{:cap/id :a/none :reason :runtime/not-ready}] :state :kept}`,
		"[3]": `{:attempts [] :gates [] :latency-ms 0 :node "n3" :op :call :path [3] :state :skipped}`,
	} {
		assert.Equal(t, edn.MustRead(want).String(), all[path], path)
	}
	assert.Equal(t, `{:attempt 2 :cap/id :a/one :enforcement :port-only}`,
		journal.AttemptReport{Attempt: 2, CapID: "a/one", Enforcement: "port-only"}.Value().String(), "one that runs")
	assert.Equal(t, `{:applicable? false :gate :good :pass true :score 0.5M :severity :should}`,
		journal.GateReport{Gate: "good", Severity: "should", Pass: true, Score: journal.ScoreOf(500)}.Value().String())
}

// RUN-042: an event that another process reads is the event that was written.
func TestEventsAreReadAgain(t *testing.T) {
	for _, rec := range append(failover(), record(&journal.RunSuspended{Why: "effects/outcome-unknown"})) {
		e, ok := journal.Progress(rec)
		if !ok {
			continue
		}
		written := e.Value()
		read := journal.ReadEvent(edn.MustRead(written.String()))
		assert.Equal(t, written.String(), read.Value().String(), e.Name)
		assert.True(t, e.At.Equal(read.At))
		assert.Equal(t, []any{e.Name, e.Run, e.Seq, e.Attempt, e.Node, e.CapID, e.Path.String()},
			[]any{read.Name, read.Run, read.Seq, read.Attempt, read.Node, read.CapID, read.Path.String()})
	}
}

// A run that was recorded before goes on in memory; a cursor on one
// whose records cannot be read ends with the reason.
func TestLoadedRuns(t *testing.T) {
	past := failover()
	for _, n := range []int{1, 5, len(past)} {
		m := journal.NewHeld()
		m.Load("run_x", past[:n])
		cursor := m.Follow("run_x", 0)
		for i := range n {
			rec, ok, err := cursor.Next(t.Context())
			require.NoError(t, err)
			require.True(t, ok)
			assert.Equal(t, i+1, rec.Seq)
		}
		if n < len(past) {
			require.NoError(t, m.Append(t.Context(), past[n]))
			m.Show("run_x", n+1)
			rec, ok, err := cursor.Next(t.Context())
			require.NoError(t, err)
			require.True(t, ok)
			assert.Equal(t, n+1, rec.Seq)
		}
	}
	lost := errors.New("lost")
	m := journal.NewMemory()
	require.NoError(t, m.Append(t.Context(), past[0]))
	cursor := m.Follow("run_x", 0)
	_, ok, err := cursor.Next(t.Context())
	require.NoError(t, err)
	require.True(t, ok)
	done := make(chan error)
	go func() {
		_, _, err := cursor.Next(t.Context())
		done <- err
	}()
	m.Fail("run_x", lost)
	require.ErrorIs(t, <-done, lost)
	_, ok, err = journal.Unreadable(lost).Next(t.Context())
	assert.False(t, ok)
	assert.ErrorIs(t, err, lost)
}

// LRN-001, LRN-003: a decision of learned dispatch has an outcome if the answer of its
// first candidate was committed, or refused by its gates, and no attempt ran beside others.
func TestChoicesOfARun(t *testing.T) {
	decided := &journal.Learned{Order: []string{"a/one", "a/two"}, Counts: make([]journal.LearnedCounts, 2)}
	resolved := &journal.NodeResolved{Op: "call", Intent: "a/b", Strategy: "cascade", Learned: decided}
	type attempt struct {
		capID    string
		verdicts []*journal.GateVerdict
	}
	pass := &journal.GateVerdict{Gate: "good", Pass: true}
	refuse := &journal.GateVerdict{Gate: "good"}
	broken := &journal.GateVerdict{Gate: "good", Err: contract.Errorf("judge/failed", "no")}
	moot := &journal.GateVerdict{Gate: "good", NotApplicable: true}
	of := func(gates ...*journal.GateVerdict) []*journal.GateVerdict { return gates }
	for name, row := range map[string]struct {
		attempts    []attempt
		winner      int // attempt, 0: none
		kept        bool
		pass, known bool
	}{
		"it answered":                    {[]attempt{{"a/one", of(pass)}}, 1, false, true, true},
		"it failed, the other answered":  {[]attempt{{"a/one", nil}, {"a/two", of(pass)}}, 2, false, false, false},
		"refused, the other answered":    {[]attempt{{"a/one", of(pass, refuse)}, {"a/two", of(pass)}}, 2, false, false, true},
		"refused first, then accepted":   {[]attempt{{"a/one", of(refuse)}, {"a/one", of(pass)}}, 2, false, true, true},
		"the gate failed":                {[]attempt{{"a/one", of(refuse, broken)}, {"a/two", of(pass)}}, 2, false, false, false},
		"a gate that does not apply":     {[]attempt{{"a/one", of(moot)}, {"a/two", of(pass)}}, 2, false, false, false},
		"the other was refused":          {[]attempt{{"a/two", of(refuse)}}, 0, false, false, false},
		"refused, and none answered":     {[]attempt{{"a/one", of(refuse)}}, 0, false, false, true},
		"its failure was kept":           {[]attempt{{"a/one", of(refuse)}}, 1, true, false, true},
		"its winner had a should failed": {[]attempt{{"a/one", of(refuse)}}, 1, false, true, true},
	} {
		s := &story{}
		s.add("", "", samples()[journal.KindRunAccepted])
		s.add("[0]", "n0", resolved)
		for i, a := range row.attempts {
			s.add("[0]", "n0", &journal.AttemptStarted{Attempt: i + 1, CapID: a.capID, CapVersion: "1", Request: oneRef, Recovery: "none", EffectKey: someHash})
			for _, g := range a.verdicts {
				one := *g
				one.Attempt = i + 1
				s.add("[0]", "n0", &one)
			}
		}
		if row.winner > 0 {
			c := &journal.NodeCommitted{Value: oneRef, CapID: row.attempts[row.winner-1].capID, Attempt: row.winner}
			if row.kept {
				c.FailureType = "eval/must-failed"
			}
			s.add("[0]", "n0", c)
		}
		s.add("[1]", "n1", &journal.NodeResolved{Op: "call", Intent: "a/b"})
		s.add("[2]", "n2", &journal.NodeResolved{Op: "call", Intent: "a/b", Learned: &journal.Learned{}})
		assert.Equal(t, []journal.Choice{{Intent: "a/b", Decided: decided, Pass: row.pass, Known: row.known}}, journal.Choices(s.records), name)

		beside := *resolved
		beside.Strategy = "race"
		s.records[1].Body = &beside
		assert.False(t, journal.Choices(s.records)[0].Known, "%s: the outcome depends on those beside it", name)

		replay := *s.records[0].Body.(*journal.RunAccepted)
		replay.ReplayOf = "run_y"
		s.records[0].Body = &replay
		assert.Empty(t, journal.Choices(s.records), "a replay decides nothing")
	}
}
