package flow_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/flow"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/flow/flowtest"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// driver carries out commands at random: it keeps the commands itself, and
// answers any of those that are open, calls and timers last.
type driver struct {
	t        *testing.T
	rng      *rand.Rand
	rules    flow.Rules
	caps     []string
	commands []flow.Command // not answered, by ID
	attempts int
	calls    map[int]string // running calls: capability by attempt
	ready    map[string]int // calls to each capability
	judged   map[int]bool   // attempts accepted by a gate
	refused  map[int]int
	finish   *flow.Command
}

// Retries and Repairs implement flow.Limits.
func (d *driver) Retries(failureType string) int { return len(failureType) % 3 }
func (d *driver) Repairs(capID string) int       { return int(capID[len(capID)-1]-'0') % 3 }

func (d *driver) chance(percent int) bool { return d.rng.IntN(100) < percent }

func (d *driver) take(all []flow.Command) {
	for _, c := range all {
		if c.Kind == flow.Finish {
			require.Nil(d.t, d.finish)
			own := c
			d.finish = &own
		}
		d.commands = append(d.commands, c)
	}
}

// pick removes a command and returns it: what is answered at once first.
func (d *driver) pick() flow.Command {
	var slow, fast []int
	for i, c := range d.commands {
		switch c.Kind {
		case flow.Call:
			if c.Parallel {
				slow = append(slow, i)
			} else {
				fast = append(fast, i)
			}
		case flow.Timer:
			slow = append(slow, i)
		case flow.Stop, flow.Finish:
		default:
			fast = append(fast, i)
		}
	}
	from := fast
	if len(fast) == 0 || len(slow) > 0 && d.chance(10) {
		from = slow
	}
	require.NotEmpty(d.t, from, "nothing answers: %+v", d.commands)
	i := from[0]
	if len(fast) == 0 {
		i = from[d.rng.IntN(len(from))]
	}
	c := d.commands[i]
	d.commands = slices.DeleteFunc(d.commands, func(o flow.Command) bool {
		return o.ID == c.ID || o.Kind == flow.Stop && o.Target == c.ID
	})
	return c
}

func (d *driver) situation() flow.Situation {
	var s flow.Situation
	for _, id := range d.caps {
		switch {
		case d.chance(80):
			s.Accepted = append(s.Accepted, id)
		case d.chance(50):
			s.Returning = append(s.Returning, id)
		}
	}
	s.ComesBack, s.Limited, s.Left = d.chance(50), d.chance(30), d.rng.Int64N(4)
	return s
}

func (d *driver) failure() *flow.Failure {
	types := []string{"runtime/crashed", "eval/low-score", policy.ReasonNotReady, "timeout/soft", "provider/refused"}
	f := &flow.Failure{
		Err:      contract.Errorf(types[d.rng.IntN(len(types))], "it failed"),
		Class:    contract.Class(d.rng.IntN(int(contract.ClassFinal) + 1)),
		Outcome:  flow.Outcome(d.rng.IntN(3)),
		Recovery: contract.RecoveryClass(d.rng.IntN(3)),
		Matched:  d.chance(80), Deterministic: d.chance(20), Crashed: d.chance(30), Undelivered: d.chance(10),
		ComesBack: d.chance(50), RepairAsked: d.chance(30), Committed: d.chance(3), OverBudget: d.chance(5),
		DoneOnce: d.chance(3), Expired: d.chance(3), Done: d.chance(5),
		Out: edn.Int(d.rng.Int64N(4)), Score: edn.Int(d.rng.Int64N(5)),
	}
	if f.Outcome == flow.Judged && d.chance(80) {
		f.Class = contract.ClassRepair
	}
	return f
}

// answer returns what came of a command.
func (d *driver) answer(c flow.Command) flow.Event {
	e := flow.Event{Of: c.ID}
	switch c.Kind {
	case flow.Find, flow.Look:
		e.Situation = d.situation()
	case flow.Start:
		if d.chance(8) {
			e.Failure, e.Situation = d.failure(), d.situation()
			break
		}
		d.attempts++
		e.Attempt = d.attempts
		d.ready[c.CapID]++
	case flow.Call:
		delete(d.calls, c.Attempt)
	case flow.Judge:
		if d.chance(35) {
			e.Score, e.Cost = edn.Int(d.rng.Int64N(5)), edn.Int(d.rng.Int64N(3))
			d.judged[c.Attempt] = true
			break
		}
		e.Failure, e.Situation = d.failure(), d.situation()
		if e.Failure.Outcome == flow.Judged {
			e.Failure.Owed = c.Attempt
		}
	case flow.Refuse:
		d.refused[c.Attempt]++
	case flow.Ready:
		switch {
		case d.chance(70):
			e.Ready = true
		case d.chance(50):
			e.Late, e.Expired = true, d.chance(50)
		default:
			e.Situation = d.situation()
			if d.chance(30) {
				e.Failure = d.failure()
			}
		}
	}
	if d.rules.Strategy == policy.Hedge && d.chance(5) {
		for attempt := range d.calls {
			e.Committed = max(e.Committed, attempt)
		}
	}
	return e
}

// run carries out one operation and returns its log.
func (d *driver) run() *flowtest.Log {
	l := &flowtest.Log{Rules: d.rules}
	var m flow.Machine
	d.take(m.Begin(d.rules))
	for events := 0; d.finish == nil; events++ {
		require.Less(d.t, events, 2000, "it does not end")
		c := d.pick()
		e := d.answer(c)
		own := flowtest.Copy(e)
		d.take(flowtest.Commands(m.Apply(&own)))
		for _, c := range d.commands {
			if c.Kind == flow.Call {
				d.calls[c.Attempt] = c.CapID
			}
		}
		assert.Equal(d.t, kinds(d.commands), kinds(m.Open()), "the machine keeps what the driver was told to do")
		if !anyParallel(d.commands) {
			assert.LessOrEqual(d.t, len(d.calls), 1, "one call at a time")
		}
		l.Add(e, m.Open())
	}
	return l
}

func anyParallel(all []flow.Command) bool {
	return slices.ContainsFunc(all, func(c flow.Command) bool { return c.Kind == flow.Call && c.Parallel })
}

func kinds(all []flow.Command) (s string) {
	for _, c := range all {
		s += fmt.Sprintf("%d %s %s %d, ", c.ID, c.Kind, c.CapID, c.Attempt)
	}
	return s
}

// The law over generated operations of every strategy, with repair, retries,
// budgets, processes that come and go, and events in any order: every cut of
// their events leads another machine to the same open commands. Every operation
// ends, its winner was accepted by its gates, no call is left, and no refused
// answer counts twice.
func TestLaw(t *testing.T) {
	t.Parallel()
	const runs = 10_000
	ends := map[string]int{}
	for n := range runs {
		rng := rand.New(rand.NewPCG(uint64(n), 1))
		d := &driver{t: t, rng: rng, calls: map[int]string{}, ready: map[string]int{}, judged: map[int]bool{}, refused: map[int]int{}}
		for i := range 1 + rng.IntN(5) {
			d.caps = append(d.caps, fmt.Sprintf("t/c%d", i))
		}
		d.rules = flow.Rules{
			Node:     "n",
			Strategy: []string{policy.Cascade, policy.Race, policy.Hedge, policy.Tournament}[n%4],
			Width:    2 + rng.IntN(3), Joining: 1 + rng.IntN(3), After: time.Second,
			MaxCandidates: 1 + rng.IntN(5), Limits: d, SwitchOn: policy.SwitchSet{},
		}
		l := d.run()
		l.Check(t)
		f := d.finish
		end := l.Rules.Strategy + " fails"
		if f.Attempt > 0 {
			end = l.Rules.Strategy + " succeeds"
			assert.True(t, d.judged[f.Attempt], "an accepted answer wins")
		}
		ends[end]++
		assert.Empty(t, d.calls, "run %d: no call is left", n)
		for attempt, times := range d.refused {
			assert.Equal(t, 1, times, "run %d: attempt %d counts once", n, attempt)
		}
		if t.Failed() {
			t.Fatalf("run %d", n)
		}
	}
	for _, s := range []string{policy.Cascade, policy.Race, policy.Hedge, policy.Tournament} {
		assert.Greater(t, ends[s+" succeeds"], runs/20, s)
		assert.Greater(t, ends[s+" fails"], runs/50, s)
	}
}

// An event that answers nothing is a defect of the driver.
func TestEventOfNothing(t *testing.T) {
	t.Parallel()
	d := &driver{}
	var m flow.Machine
	m.Begin(flow.Rules{Strategy: policy.Cascade, MaxCandidates: 1, Limits: d})
	assert.Equal(t, "1 find  0, ", kinds(m.Open()))
	assert.PanicsWithValue(t, "flow: event of command 7, which is not open", func() { m.Apply(&flow.Event{Of: 7}) })
}
