package worker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/sdk/contract"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func death(typ string) *contract.Error { return contract.Errorf(typ, "it ended") }

// rig is a machine that receives one event per minute unless a test advances
// the time.
type rig struct {
	*Machine
	record *Record
	now    time.Time
	log    []string
	orders []Action
}

func newRig() *rig {
	r := &rig{record: NewRecord(5 * time.Minute), now: noon}
	r.Machine = New(r.record, noon)
	return r
}

func (r *rig) after(d time.Duration) *rig { r.now = r.now.Add(d); return r }

// take records the transitions and actions.
func (r *rig) take() {
	transitions, actions := r.Take()
	for _, t := range transitions {
		r.log = append(r.log, fmt.Sprintf("%s>%s(%s)", t.From, t.To, t.Cause))
	}
	r.orders = append(r.orders, actions...)
}

func (r *rig) said() string {
	r.take()
	s := strings.Join(r.log, " ")
	r.log = nil
	return s
}

// up makes the server ready.
func (r *rig) up(t *testing.T) {
	t.Helper()
	verdict, err := r.Want(r.now, 0, "call")
	require.Equal(t, Wait, verdict, "%v", err)
	r.Spawned(r.Run(), 1000+int(r.Run()))
	r.Answers(r.now, r.Run())
	verdict, _ = r.Want(r.now, 0, "call")
	require.Equal(t, Go, verdict)
	r.take()
}

// MLX-002: each path through the states, with cause, duration and pid.
func TestTransitions(t *testing.T) {
	r := newRig()
	verdict, _ := r.Want(r.now, 0, "call")
	assert.Equal(t, Wait, verdict)
	r.Spawned(1, 7)
	r.Answers(r.after(3*time.Second).now, 1)
	require.True(t, r.Begin(r.now, 1))
	require.True(t, r.Begin(r.now, 1))
	assert.False(t, r.End(r.now, 1))
	assert.True(t, r.End(r.after(time.Second).now, 1))
	r.Quit(r.after(time.Minute).now, TTLExpired)
	assert.False(t, r.Begin(r.now, 1), "a worker that drains takes no call")
	r.Gone(r.now, 1, death("model/died"))
	transitions, actions := r.Take()
	var got []string
	for _, x := range transitions {
		got = append(got, fmt.Sprintf("%s>%s %s %s %d", x.From, x.To, x.Cause, x.Took, x.PID))
	}
	assert.Equal(t, []string{
		"cold>starting call 0s 0", "starting>ready answers 3s 7", "ready>busy call 0s 7", "busy>ready idle 1s 7",
		"ready>draining session/ttl-expired 1m0s 7", "draining>cold ended 0s 7",
	}, got)
	assert.Equal(t, []Action{{Spawn, 1, "call"}, {Stop, 1, TTLExpired}}, actions)
	assert.Zero(t, r.PID())
	total, _ := r.record.Deaths(r.now)
	assert.Zero(t, total, "who was asked to end has not died")
}

// MLX-002: the transitions to failed and stopped, with cause, duration and pid.
// Each row begins with a ready worker, process 1001, unless it needs another
// state.
func TestTransitionsToTheEnd(t *testing.T) {
	start := func(r *rig) { _, _ = r.Want(r.now, 0, "call"); r.Spawned(r.Run(), 7) }
	died := func(r *rig) { r.Gone(r.after(time.Second).now, r.Run(), death("model/died")) }
	for _, row := range []struct {
		name  string
		cold  bool
		steps func(t *testing.T, r *rig)
		want  string
	}{
		{"the start fails", true, func(_ *testing.T, r *rig) {
			start(r)
			r.Gone(r.after(3*time.Second).now, 1, death("model/start-failed"))
		}, "cold>starting call 0s 0, starting>failed model/start-failed 3s 7"},
		{"the third death", false, func(t *testing.T, r *rig) {
			for range 2 {
				died(r)
				r.up(t)
			}
			require.True(t, r.Begin(r.now, 3))
			died(r)
		}, "ready>busy call 0s 1003, busy>failed model/died 1s 1003"},
		{"the third time without an answer", false, func(t *testing.T, r *rig) {
			for range 2 {
				died(r)
				r.up(t)
			}
			r.Suspect(r.after(time.Minute).now, 3, death("model/stalled"))
			r.Gone(r.after(time.Second).now, 3, death("model/died"))
		}, "ready>draining model/stalled 1m0s 1003, draining>failed ended 1s 1003"},
		{"closed while cold", true, func(_ *testing.T, r *rig) {
			r.Close(r.after(time.Second).now)
		}, "cold>stopped close 1s 0"},
		{"closed while starting", true, func(_ *testing.T, r *rig) {
			start(r)
			r.Close(r.after(time.Second).now)
			r.Gone(r.after(time.Second).now, 1, death("model/start-failed"))
		}, "cold>starting call 0s 0, starting>draining close 1s 7, draining>stopped ended 1s 7"},
		{"closed while ready", false, func(_ *testing.T, r *rig) {
			r.Close(r.after(time.Minute).now)
			r.Gone(r.after(time.Second).now, 1, death("model/died"))
		}, "ready>draining close 1m0s 1001, draining>stopped ended 1s 1001"},
		{"closed while busy", false, func(t *testing.T, r *rig) {
			require.True(t, r.Begin(r.now, 1))
			r.Close(r.after(time.Second).now)
			r.Gone(r.after(time.Second).now, 1, death("model/died"))
		}, "ready>busy call 0s 1001, busy>draining close 1s 1001, draining>stopped ended 1s 1001"},
		{"closed while it quits", false, func(_ *testing.T, r *rig) {
			r.Quit(r.now, TTLExpired)
			r.Close(r.after(time.Second).now)
			r.Gone(r.after(time.Second).now, 1, death("model/died"))
		}, "ready>draining session/ttl-expired 0s 1001, draining>stopped ended 2s 1001"},
		{"closed while frozen", true, func(_ *testing.T, r *rig) {
			r.Freeze(r.now)
			r.Close(r.after(time.Second).now)
		}, "cold>frozen session/manual-freeze 0s 0, frozen>stopped close 1s 0"},
		{"closed after it failed", true, func(_ *testing.T, r *rig) {
			start(r)
			r.Gone(r.now, 1, death("model/unavailable"))
			r.take()
			r.Close(r.after(time.Second).now)
			r.Close(r.after(time.Second).now)
		}, "failed>stopped close 1s 0"},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRig()
			if !row.cold {
				r.up(t)
			}
			row.steps(t, r)
			transitions, _ := r.Take()
			var got []string
			for _, x := range transitions {
				got = append(got, fmt.Sprintf("%s>%s %s %s %d", x.From, x.To, x.Cause, x.Took, x.PID))
			}
			assert.Equal(t, row.want, strings.Join(got, ", "))
			state, _ := r.State()
			verdict, err := r.Want(r.now, 0, "call")
			if state == Stopped {
				assert.Equal(t, Refuse, verdict)
				assert.NotNil(t, err)
			}
		})
	}
}

// MLX-009: three deaths in five minutes are a crash loop; the next start is
// after 1, 2, 4 .. 30 minutes; a long run resets the pause.
func TestCrashLoop(t *testing.T) {
	r := newRig()
	pauses := []time.Duration{1, 2, 4, 8, 16, 30, 30}
	for i, pause := range pauses {
		for n := range 3 {
			r.up(t)
			r.Gone(r.after(time.Second).now, r.Run(), death("model/died"))
			state, _ := r.State()
			if n < 2 {
				require.Equal(t, Cold, state)
				require.Equal(t, "model/died", r.Died().Type)
			}
		}
		state, _ := r.State()
		require.Equal(t, Failed, state)
		require.Equal(t, "model/crash-loop", r.Died().Type)
		verdict, err := r.Want(r.now, 0, "call")
		require.Equal(t, Refuse, verdict)
		require.Equal(t, "model/crash-loop", err.Type)
		ms, _ := err.Details.Key("retry-after-ms").AsInt()
		require.Equal(t, (pause * time.Minute).Milliseconds(), ms, "loop %d", i)
		verdict, _ = r.Want(r.after(pause*time.Minute-time.Millisecond).now, 0, "call")
		require.Equal(t, Refuse, verdict, "not a moment too early")
		r.after(time.Millisecond)
	}
	r.up(t)
	for range 3 {
		r.Gone(r.after(6*time.Minute).now, r.Run(), death("model/died"))
		r.up(t)
	}
	_, lately := r.record.Deaths(r.now)
	assert.Equal(t, 1, lately, "deaths far apart are no loop")
	for range 2 {
		r.Gone(r.after(time.Second).now, r.Run(), death("model/died"))
		if state, _ := r.State(); state == Cold {
			r.up(t)
		}
	}
	ms, _ := r.Died().Details.Key("retry-after-ms").AsInt()
	assert.Equal(t, time.Minute.Milliseconds(), ms, "it had worked for longer than the window")
}

// A failed start fails the calls that waited for it; the next call starts
// again, and three failures in a row are a crash loop too.
func TestStartFails(t *testing.T) {
	r := newRig()
	for i := range 2 {
		verdict, _ := r.Want(r.now, 0, "call")
		require.Equal(t, Wait, verdict)
		run := r.Run()
		r.Gone(r.now, run, death("model/start-failed"))
		verdict, err := r.Want(r.now, run, "call")
		require.Equal(t, Refuse, verdict, "round %d", i)
		assert.Equal(t, "model/start-failed", err.Type)
	}
	_, _ = r.Want(r.now, 0, "call")
	r.Gone(r.now, r.Run(), death("model/start-timeout"))
	_, err := r.Want(r.now, 0, "call")
	require.NotNil(t, err)
	assert.Equal(t, "model/crash-loop", err.Type)
	r.record.Clear()
	r.Quit(r.now, "operator")
	verdict, _ := r.Want(r.now, 0, "call")
	assert.Equal(t, Wait, verdict, "an operator has it tried again")
}

// MLX-012: a server that cannot run here is not started until the recheck.
// MLX-003: a used port blocks no later start.
func TestCannotRun(t *testing.T) {
	r := newRig()
	_, _ = r.Want(r.now, 0, "call")
	r.Gone(r.now, 1, death("model/unavailable"))
	for range 100 {
		verdict, err := r.Want(r.after(2*time.Second).now, 0, "call")
		require.Equal(t, Refuse, verdict)
		require.Equal(t, "model/unavailable", err.Type)
	}
	require.EqualValues(t, 1, r.Run())
	verdict, _ := r.Want(r.after(5*time.Minute).now, 0, "call")
	require.Equal(t, Wait, verdict)
	r.Gone(r.now, 2, death("model/port-in-use"))
	verdict, _ = r.Want(r.now, 0, "call")
	assert.Equal(t, Wait, verdict)
	total, _ := r.record.Deaths(r.now)
	assert.Zero(t, total)
}

// MLX-011: freeze and thaw, also during other transitions.
func TestFreeze(t *testing.T) {
	r := newRig()
	r.up(t)
	r.Freeze(r.now)
	_, err := r.Want(r.now, 0, "call")
	assert.Equal(t, "model/frozen", err.Type)
	r.Gone(r.now, 1, death("model/died"))
	assert.Contains(t, r.said(), "ready>draining(session/manual-freeze) draining>frozen(ended)")
	_, err = r.Want(r.now, 0, "call")
	assert.Equal(t, "model/frozen", err.Type)
	r.Thaw(r.now)
	r.up(t)
	r.Freeze(r.now)
	r.Thaw(r.now)
	verdict, _ := r.Want(r.now, 0, "call")
	assert.Equal(t, Wait, verdict, "the old one has to be gone first")
	r.Gone(r.now, 2, death("model/died"))
	assert.True(t, strings.HasSuffix(r.said(), "draining>cold(ended)"))
	r.Close(r.now)
	r.Thaw(r.now)
	r.Freeze(r.now)
	verdict, err = r.Want(r.now, 0, "call")
	assert.Equal(t, Refuse, verdict)
	assert.Equal(t, "runtime/not-ready", err.Type)
}

// Events of an earlier run change nothing.
func TestOldNews(t *testing.T) {
	r := newRig()
	r.up(t)
	r.Gone(r.now, 1, death("model/died"))
	r.up(t)
	r.said()
	r.Gone(r.now, 1, death("model/died"))
	r.Answers(r.now, 1)
	r.Suspect(r.now, 1, death("model/died"))
	assert.False(t, r.Begin(r.now, 1))
	assert.False(t, r.End(r.now, 1))
	assert.Empty(t, r.said())
}

// world executes the actions of a machine, in any order and at any time.
type world struct {
	r        *rig
	live     map[uint64]bool // processes
	stopping map[uint64]bool
	closed   bool
}

func (w *world) obey(t *rapid.T) {
	transitions, actions := w.r.Take()
	for _, x := range transitions {
		require.NotEqual(t, x.From, x.To)
		require.NotEmpty(t, x.Cause)
		require.GreaterOrEqual(t, x.Took, time.Duration(0))
	}
	for _, a := range actions {
		switch a.Do {
		case Spawn:
			require.False(t, w.closed, "a process after the end")
			w.live[a.Run] = true
		case Stop, Kill:
			w.stopping[a.Run] = true
		}
	}
	require.LessOrEqual(t, len(w.live), 1, "two processes of one worker")
	state, _ := w.r.State()
	require.Equal(t, len(w.live) > 0, w.r.Alive())
	require.Equal(t, state == Busy, w.r.Calls() > 0 && state != Draining, "%s with %d calls", state, w.r.Calls())
	if state == Cold || state == Failed || state == Frozen || state == Stopped {
		require.Empty(t, w.live, "a process in state %s", state)
		require.Zero(t, w.r.PID())
	}
	if state == Failed {
		require.NotNil(t, w.r.Died())
	}
}

// one returns a current or earlier process.
func (w *world) one(t *rapid.T) uint64 {
	return rapid.Uint64Range(0, w.r.Run()).Draw(t, "run")
}

// MLX-023: for any sequence of events there is at most one process per worker,
// and none after the end.
func TestAnyOrderOfEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{r: newRig(), live: map[uint64]bool{}, stopping: map[uint64]bool{}}
		r := w.r
		why := func() *contract.Error {
			return death(rapid.SampledFrom([]string{"model/died", "model/start-failed", "model/unavailable", "model/port-in-use", "model/out-of-memory"}).Draw(t, "why"))
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { w.obey(t) },
			"want": func(t *rapid.T) {
				verdict, err := r.Want(r.now, w.one(t), "call")
				require.Equal(t, verdict == Refuse, err != nil, "verdict %d: %v", verdict, err)
			},
			// Another worker of the same model.
			"other": func(t *rapid.T) {
				if rapid.Bool().Draw(t, "here") {
					r.record.Unavailable(r.now, why())
				} else {
					_ = r.record.died(r.now, why(), 0)
				}
			},
			"spawned": func(t *rapid.T) {
				if run := w.one(t); w.live[run] {
					r.Spawned(run, int(run)+1)
				}
			},
			"answers": func(t *rapid.T) { r.Answers(r.now, w.one(t)) },
			"begin":   func(t *rapid.T) { r.Begin(r.now, w.one(t)) },
			"end":     func(t *rapid.T) { r.End(r.now, w.one(t)) },
			"dies": func(t *rapid.T) {
				run := w.one(t)
				delete(w.live, run)
				r.Gone(r.now, run, why())
			},
			"suspect": func(t *rapid.T) { r.Suspect(r.now, w.one(t), why()) },
			"quit":    func(*rapid.T) { r.Quit(r.now, "operator") },
			"freeze":  func(*rapid.T) { r.Freeze(r.now) },
			"thaw":    func(*rapid.T) { r.Thaw(r.now) },
			"clear":   func(*rapid.T) { r.record.Clear() },
			"time": func(t *rapid.T) {
				r.after(time.Duration(rapid.IntRange(1, 2000).Draw(t, "seconds")) * time.Second)
			},
			"close": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "really") == 0 {
					r.Close(r.now)
					w.closed = true
				}
			},
		})
		r.Close(r.now)
		w.closed = true
		w.obey(t)
		for run := range w.live {
			require.True(t, w.stopping[run], "nobody stops run %d", run)
			delete(w.live, run)
			r.Gone(r.now, run, death("model/died"))
		}
		w.obey(t)
		state, _ := r.State()
		require.Equal(t, Stopped, state)
	})
}
