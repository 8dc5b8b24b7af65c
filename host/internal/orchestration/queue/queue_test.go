package queue_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fermenthq/ferment/host/internal/orchestration/queue"
)

var begin = time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC)

func still() time.Time { return begin }

// line enters runs and notes the order of their starts.
type line struct {
	t      require.TestingT
	q      *queue.Queue
	places map[string]*queue.Place
	order  []string // of those that wait
}

func newLine(t require.TestingT, s queue.Settings) *line {
	return &line{t: t, q: queue.New(s, still), places: map[string]*queue.Place{}}
}

func (l *line) enter(name string, e queue.Entry) {
	p, err := l.q.Enter(e)
	require.Nil(l.t, err)
	l.places[name] = p
	l.order = append(l.order, name)
}

// started returns the runs that got their turn since the last call.
func (l *line) started() (out []string) {
	l.order = slices.DeleteFunc(l.order, func(name string) bool {
		select {
		case <-l.places[name].Turn():
			out = append(out, name)
			return true
		default:
			return false
		}
	})
	return out
}

// drain ends one run after the other and returns the order of all starts.
func (l *line) drain() (out []string) {
	for running := l.started(); len(running) > 0; running = l.started() {
		out = append(out, running...)
		for _, name := range running {
			l.places[name].Leave()
		}
	}
	return out
}

func one(classes ...queue.Class) queue.Settings {
	return queue.Settings{Classes: classes, Workers: 1, MaxQueued: 1000}
}

// JRN-045: a run that only waits for people has no worker. It takes one again at
// once, and gives none back that it does not have.
func TestPausedRunsHaveNoWorker(t *testing.T) {
	l := newLine(t, one(queue.Class{Name: "sync", Workers: 1, MaxQueued: 9, Weight: 1}))
	for _, name := range []string{"a", "b", "c"} {
		l.enter(name, queue.Entry{Class: "sync"})
	}
	running := func() int { return l.q.Loads()[0].Running }
	require.Equal(t, []string{"a"}, l.started())
	l.places["c"].Pause() // it does not run
	l.places["a"].Pause()
	l.places["a"].Pause()
	assert.Equal(t, []string{"b"}, l.started())
	l.places["a"].Continue()
	assert.Equal(t, 2, running())
	l.places["b"].Leave()
	assert.Empty(t, l.started(), "the worker is taken")
	l.places["a"].Pause()
	l.places["a"].Leave()
	l.places["a"].Continue()
	assert.Equal(t, []string{"c"}, l.started())
	l.places["c"].Leave()
	assert.Equal(t, 0, running())
}

// RUN-011: within a class the highest priority starts first, then the principals
// take turns, then the order of acceptance counts.
func TestOrderWithinAClass(t *testing.T) {
	l := newLine(t, one(queue.Class{Name: "a", Workers: 1, MaxQueued: 100, Weight: 1}))
	for _, run := range strings.Fields("first/0/x x1/0/x x2/0/x x3/0/x y1/0/y y2/0/y z1/0/z low/-9/z high/9/z") {
		part := strings.Split(run, "/")
		var priority int
		_, err := fmt.Sscan(part[1], &priority)
		require.NoError(t, err)
		l.enter(part[0], queue.Entry{Class: "a", Priority: priority, Principal: part[2]})
	}
	assert.Equal(t, "first high x1 y1 z1 x2 y2 x3 low", strings.Join(l.drain(), " "))
}

// RUN-011: classes take turns by weight, and no class waits longer than the sum of
// the weights.
func TestClassesTakeTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		classes := make([]queue.Class, rapid.IntRange(2, 4).Draw(t, "classes"))
		sum := 0
		for i := range classes {
			weight := rapid.IntRange(1, 5).Draw(t, "weight")
			classes[i] = queue.Class{Name: string(rune('a' + i)), Workers: 1, MaxQueued: 1000, Weight: weight}
			sum += weight
		}
		l := newLine(t, one(classes...))
		left := map[byte]int{}
		for i, c := range classes {
			for n := range rapid.IntRange(0, 40).Draw(t, "runs") {
				l.enter(fmt.Sprintf("%s%d", c.Name, n), queue.Entry{Class: c.Name, Principal: "p"})
				left[byte('a'+i)]++
			}
		}
		all := len(l.order)
		order := l.drain()
		require.Len(t, order, all, "every run starts")
		waits := map[byte]int{}
		for _, run := range order {
			left[run[0]]--
			waits[run[0]] = 0
			for _, c := range classes {
				if name := c.Name[0]; name != run[0] && left[name] > 0 {
					waits[name]++
					require.LessOrEqual(t, waits[name], sum, "class %c waits too long in %v", name, order)
				}
			}
		}
	})
}

// RUN-011: a class has no more runs under way than workers, the host none beyond its
// own, and every waiting run is counted until it starts or leaves.
func TestWorkersAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := queue.Settings{Workers: rapid.IntRange(1, 5).Draw(t, "workers"), MaxQueued: 1000, Classes: []queue.Class{
			{Name: "a", Workers: rapid.IntRange(1, 3).Draw(t, "of a"), MaxQueued: 1000, Weight: 1},
			{Name: "b", Workers: rapid.IntRange(1, 3).Draw(t, "of b"), MaxQueued: 1000, Weight: 3},
		}}
		l := newLine(t, s)
		var running []string
		n := 0
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				l.enter(fmt.Sprint(n), queue.Entry{Class: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "class"),
					Priority: rapid.IntRange(-9, 9).Draw(t, "priority"), Principal: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "who")})
				n++
			case 2:
				if len(running) > 0 {
					i := rapid.IntRange(0, len(running)-1).Draw(t, "ends")
					l.places[running[i]].Leave()
					l.places[running[i]].Leave() // no effect
					running = slices.Delete(running, i, i+1)
				}
			case 3:
				if len(l.order) > 0 {
					i := rapid.IntRange(0, len(l.order)-1).Draw(t, "leaves")
					l.places[l.order[i]].Leave()
					l.order = slices.Delete(l.order, i, i+1)
				}
			}
			running = append(running, l.started()...)
			all, waiting := 0, 0
			for i, load := range l.q.Loads() {
				require.LessOrEqual(t, load.Running, s.Classes[i].Workers)
				require.True(t, load.Waiting == 0 || load.Running == s.Classes[i].Workers || len(running) == s.Workers, "an idle worker")
				all += load.Running
				waiting += load.Waiting
			}
			require.Equal(t, len(running), all)
			require.Equal(t, len(l.order), waiting)
			require.LessOrEqual(t, all, s.Workers)
		}
	})
}

// RUN-012: a full class refuses runs and says when to come back; runs that were
// accepted before are let in.
func TestFullClassRefuses(t *testing.T) {
	now := begin
	q := queue.New(queue.Settings{Workers: 8, MaxQueued: 3, Classes: []queue.Class{
		{Name: "a", Workers: 2, MaxQueued: 2, Weight: 1}, {Name: "b", Workers: 1, MaxQueued: 2, Weight: 1},
	}}, func() time.Time { return now })
	enter := func(class string, accepted bool) (*queue.Place, error) {
		p, err := q.Enter(queue.Entry{Class: class, Accepted: accepted})
		if err != nil {
			return nil, err
		}
		return p, nil
	}
	first, err := enter("a", false)
	require.NoError(t, err)
	now = now.Add(20 * time.Second)
	first.Leave()
	for range 4 {
		_, err := enter("a", false)
		require.NoError(t, err)
	}
	_, err = enter("a", false)
	require.ErrorContains(t, err, "2 runs of class :a wait already")
	_, refused := q.Enter(queue.Entry{Class: "a"})
	assert.Equal(t, "runtime/overloaded", refused.Type)
	assert.True(t, refused.Retryable)
	assert.Equal(t, "10000", refused.Details.Key("retry-after-ms").String(), "runs took 20 s, and there are two workers")
	for range 2 {
		_, err = enter("b", false)
		require.NoError(t, err)
	}
	_, err = enter("b", false)
	require.ErrorContains(t, err, "3 in all", "the whole queue is full")
	_, err = enter("b", true)
	require.NoError(t, err)
}

// Configure keeps the waiting runs, also those of a class that was removed.
func TestConfigureKeepsRuns(t *testing.T) {
	l := newLine(t, one(queue.Class{Name: "a", Workers: 1, MaxQueued: 9, Weight: 1}, queue.Class{Name: "b", Workers: 1, MaxQueued: 9, Weight: 1}))
	for i := range 3 {
		l.enter(fmt.Sprintf("a%d", i), queue.Entry{Class: "a"})
		l.enter(fmt.Sprintf("b%d", i), queue.Entry{Class: "b"})
	}
	assert.Equal(t, []string{"a0"}, l.started())
	l.q.Configure(queue.Settings{Workers: 4, MaxQueued: 9, Classes: []queue.Class{{Name: "a", Workers: 3, MaxQueued: 9, Weight: 1}}})
	assert.Equal(t, []string{"b0", "a1", "a2"}, l.started(), "more workers start at once")
	l.enter("new", queue.Entry{Class: "b"})
	for _, name := range []string{"a0", "a1", "a2", "b0"} {
		l.places[name].Leave()
	}
	assert.Equal(t, []string{"b1", "b2", "new"}, l.drain())
	assert.Len(t, l.q.Loads(), 2)
	l.q.Configure(queue.Settings{Workers: 4, MaxQueued: 9, Classes: []queue.Class{{Name: "a", Workers: 3, MaxQueued: 9, Weight: 1}}})
	assert.Len(t, l.q.Loads(), 1, "an empty class that is gone is removed")
}

// A queue is used by many goroutines at once.
func TestManyRunsAtOnce(t *testing.T) {
	q := queue.New(queue.Settings{Workers: 4, MaxQueued: 10_000, Classes: []queue.Class{
		{Name: "a", Workers: 3, MaxQueued: 10_000, Weight: 2}, {Name: "b", Workers: 3, MaxQueued: 10_000, Weight: 1},
	}}, time.Now)
	var all sync.WaitGroup
	var mu sync.Mutex
	now, most, ended := 0, 0, 0
	for i := range 2000 {
		all.Go(func() {
			p, err := q.Enter(queue.Entry{Class: string(rune('a' + i%2)), Principal: fmt.Sprint(i % 7), Priority: i%19 - 9})
			if !assert.Nil(t, err) {
				return
			}
			if i%5 == 0 {
				p.Leave()
				return
			}
			<-p.Turn()
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			mu.Lock()
			now--
			ended++
			mu.Unlock()
			p.Leave()
		})
	}
	all.Wait()
	assert.LessOrEqual(t, most, 4)
	assert.Equal(t, 1600, ended)
	for _, load := range q.Loads() {
		assert.Zero(t, load.Running+load.Waiting)
	}
}

// RUN-012, section 1 performance: a place in an idle queue.
func BenchmarkEnter(b *testing.B) {
	q := queue.New(one(queue.Class{Name: "a", Workers: 1, MaxQueued: 9, Weight: 1}), time.Now)
	b.ReportAllocs()
	for b.Loop() {
		p, _ := q.Enter(queue.Entry{Class: "a"})
		<-p.Turn()
		p.Leave()
	}
}

// RUN-034: a reserved place counts nowhere until it joins, and then waits like any other.
func TestReserve(t *testing.T) {
	q := queue.New(one(queue.Class{Name: "a", Workers: 1, MaxQueued: 1, Weight: 1}), still)
	reserved := q.Reserve(queue.Entry{Class: "a"})
	assert.False(t, reserved.Running())
	assert.Equal(t, 0, q.Loads()[0].Running+q.Loads()[0].Waiting)
	working, err := q.Enter(queue.Entry{Class: "a"})
	require.Nil(t, err)
	require.Nil(t, reserved.Join())
	assert.Equal(t, 1, q.Loads()[0].Waiting)
	late := q.Reserve(queue.Entry{Class: "a"})
	full := late.Join()
	require.NotNil(t, full)
	assert.Equal(t, "runtime/overloaded", full.Type)
	late.Leave()
	working.Leave()
	<-reserved.Turn()
	assert.True(t, reserved.Running())
	reserved.Leave()
	q.Reserve(queue.Entry{Class: "a"}).Leave()
	assert.Equal(t, 0, q.Loads()[0].Running+q.Loads()[0].Waiting)
}
