package queue

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Lowest and Highest are the bounds of priorities.
const (
	Lowest  = -9
	Highest = 9
)

// Class is a class of runs.
type Class struct {
	Name      string
	Workers   int // runs under way at once
	MaxQueued int // runs that wait
	Weight    int // starts in a row, while other classes wait too
}

// Settings configure a Queue.
type Settings struct {
	Classes []Class
	// Workers is the number of runs under way at once, and MaxQueued that of
	// waiting runs, of all classes together.
	Workers, MaxQueued int
}

// Queue holds back accepted runs until a worker is free. It may be used by many
// goroutines at once.
type Queue struct {
	now func() time.Time

	mu       sync.Mutex
	settings Settings
	classes  []*class // those of the settings, and removed ones that are not empty
	at       int      // class whose turn it is
	left     int      // starts that it may have before the next one
	running  int
	waiting  int
}

// class is a class with its runs.
type class struct {
	Class
	running int
	waiting int
	levels  [Highest - Lowest + 1]level // by priority
	service time.Duration               // of one run, a moving average
}

// New returns an empty queue.
func New(s Settings, now func() time.Time) *Queue {
	q := &Queue{now: now}
	q.Configure(s)
	return q
}

// Configure changes the settings. Runs that wait for a class that is gone still get
// their turn.
func (q *Queue) Configure(s Settings) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.settings = s
	kept := q.classes
	q.classes, q.at, q.left = nil, 0, 0
	for _, c := range s.Classes {
		of := &class{}
		if i := slices.IndexFunc(kept, func(k *class) bool { return k.Name == c.Name }); i >= 0 {
			of = kept[i]
			kept = slices.Delete(kept, i, i+1)
		}
		of.Class = c
		q.classes = append(q.classes, of)
	}
	for _, c := range kept {
		if c.running+c.waiting > 0 {
			q.classes = append(q.classes, c)
		}
	}
	q.startAll()
}

// Entry is a run that wants to start.
type Entry struct {
	Class     string
	Priority  int // Lowest to Highest
	Principal string
	// Accepted is set for a run that was accepted before: no limit of waiting runs
	// applies.
	Accepted bool
}

// Enter takes a place for a run. The error is runtime/overloaded if too many wait
// already; it says when a retry may succeed. An unknown class is that of the first
// settings.
func (q *Queue) Enter(e Entry) (*Place, *contract.Error) {
	p := q.Reserve(e)
	if err := p.Join(); err != nil {
		return nil, err
	}
	return p, nil
}

// Reserve returns the place of a run that does not want a worker yet: it counts
// nowhere until it joins the queue.
func (q *Queue) Reserve(e Entry) *Place { return &Place{queue: q, entry: e} }

// Join has a reserved place wait for a worker. The error is that of Enter; the place is
// reserved then.
func (p *Place) Join() *contract.Error {
	q := p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.find(p.entry.Class)
	if q.free(c) && c.waiting == 0 {
		p.class, p.turn = c, started
		q.start(p)
		return nil
	}
	if !p.entry.Accepted && (c.waiting >= c.MaxQueued || q.waiting >= q.settings.MaxQueued) {
		return q.overloaded(c)
	}
	p.class, p.turn, p.level = c, make(chan struct{}), &c.levels[min(max(p.entry.Priority, Lowest), Highest)-Lowest]
	p.level.add(p)
	c.waiting++
	q.waiting++
	return nil
}

func (q *Queue) find(name string) *class {
	if i := slices.IndexFunc(q.classes, func(c *class) bool { return c.Name == name }); i >= 0 {
		return q.classes[i]
	}
	return q.classes[0]
}

// Bounds of the wait that an overloaded class asks for.
const (
	leastWait = time.Second
	mostWait  = 5 * time.Minute
)

// overloaded is the error of a full class, with the time after which a place is
// likely to be free.
func (q *Queue) overloaded(c *class) *contract.Error {
	after := c.service / time.Duration(max(1, min(c.Workers, q.settings.Workers)))
	after = min(max(after, leastWait), mostWait)
	return contract.Errorf("runtime/overloaded", "%d runs of class :%s wait already, %d in all; the limits are %d and %d",
		c.waiting, c.Name, q.waiting, c.MaxQueued, q.settings.MaxQueued).
		WithDetail("queue/class", edn.K(c.Name)).
		WithDetail("retry-after-ms", edn.Int(after.Milliseconds()))
}

// free reports whether a run of the class may start.
func (q *Queue) free(c *class) bool { return q.running < q.settings.Workers && c.running < c.Workers }

func (q *Queue) start(p *Place) {
	p.running, p.begun = true, q.now()
	p.class.running++
	q.running++
}

// startAll gives free workers to waiting runs: deficit round robin over the classes,
// where each start costs one.
func (q *Queue) startAll() {
	for q.running < q.settings.Workers && q.waiting > 0 {
		c := q.next()
		if c == nil {
			return
		}
		p := c.take()
		c.waiting--
		q.waiting--
		q.start(p)
		close(p.turn)
	}
}

// next returns the class that starts a run; nil: none can.
func (q *Queue) next() *class {
	for range 2 * len(q.classes) {
		c := q.classes[q.at]
		if q.left > 0 && c.waiting > 0 && q.free(c) {
			q.left--
			return c
		}
		q.at = (q.at + 1) % len(q.classes)
		q.left = q.classes[q.at].Weight
	}
	return nil
}

// take removes the first place of the class.
func (c *class) take() *Place {
	for i := len(c.levels) - 1; i >= 0; i-- {
		if p := c.levels[i].take(); p != nil {
			return p
		}
	}
	panic("a class counts a run that has no place")
}

// Place is the place of one run.
type Place struct {
	queue   *Queue
	entry   Entry
	class   *class // nil: it is only reserved
	level   *level
	turn    chan struct{}
	begun   time.Time
	running bool
	paused  time.Time // since when it waits for people; zero: it does not
	gone    bool
}

var started = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Turn is closed when the run may start; nil for a place that is only reserved.
func (p *Place) Turn() <-chan struct{} { return p.turn }

// Running reports whether the run may be under way.
func (p *Place) Running() bool {
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	return p.running
}

// Pause gives the worker of a run back that only waits for people, until Continue.
func (p *Place) Pause() {
	q := p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if !p.running || p.gone || !p.paused.IsZero() {
		return
	}
	p.paused = q.now()
	p.class.running--
	q.running--
	q.startAll()
}

// Continue takes a worker again, at once: until others end, more runs may be under
// way than there are workers.
func (p *Place) Continue() {
	q := p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.gone || p.paused.IsZero() {
		return
	}
	p.begun = p.begun.Add(q.now().Sub(p.paused))
	p.paused = time.Time{}
	p.class.running++
	q.running++
}

// Leave gives the place back, of a run that has ended or does not wait any longer.
// Only the first call has an effect.
func (p *Place) Leave() {
	q := p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	switch c := p.class; {
	case p.gone, !p.paused.IsZero(), c == nil:
	case p.running:
		c.running--
		q.running--
		c.served(q.now().Sub(p.begun))
	default:
		p.level.remove(p)
		c.waiting--
		q.waiting--
	}
	p.gone = true
	q.startAll()
}

// served counts the duration of a run.
func (c *class) served(d time.Duration) {
	if c.service == 0 {
		c.service = d
		return
	}
	c.service += (d - c.service) / 8
}

// Load is the load of one class.
type Load struct {
	Class            Class
	Running, Waiting int
}

// Loads returns the load of each class, by name.
func (q *Queue) Loads() []Load {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := make([]Load, len(q.classes))
	for i, c := range q.classes {
		out[i] = Load{c.Class, c.running, c.waiting}
	}
	slices.SortFunc(out, func(a, b Load) int { return cmp.Compare(a.Class.Name, b.Class.Name) })
	return out
}
