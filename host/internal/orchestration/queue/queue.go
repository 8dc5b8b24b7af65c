package queue

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Lowest and Highest are the bounds of Entry.Priority. A higher priority starts first.
const (
	Lowest  = -9
	Highest = 9
)

// Class holds the limits of one class of runs.
type Class struct {
	Name      string
	Workers   int // runs that may execute at once
	MaxQueued int // runs that wait
	Weight    int // starts per turn of the round robin
}

// Settings configure a Queue.
type Settings struct {
	Classes []Class
	// Workers is the number of runs that may execute at once, and MaxQueued the number of
	// runs that may wait, both for all classes together.
	Workers, MaxQueued int
}

// Queue holds back accepted runs until a worker is free. It is safe for concurrent use.
type Queue struct {
	now func() time.Time

	mu       sync.Mutex
	settings Settings
	classes  []*class // those of the settings, and removed ones that Configure kept
	at       int      // class whose turn it is
	left     int      // starts that it may have before the next one
	running  int
	waiting  int
}

// class is a Class with the state of its runs.
type class struct {
	Class
	running int
	waiting int
	levels  [Highest - Lowest + 1]level // by priority
	service time.Duration               // moving average of the execution time of its runs
}

// New returns an empty queue with the clock now. s must have at least one class.
func New(s Settings, now func() time.Time) *Queue {
	q := &Queue{now: now}
	q.Configure(s)
	return q
}

// Configure changes the settings and starts the waiting runs that the new limits admit. s
// must have at least one class. A removed class that has runs stays in the queue, with
// its limits, until a later call of Configure finds it empty.
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

// Entry describes a run that enters the queue.
type Entry struct {
	Class     string
	Priority  int // Lowest to Highest
	Principal string
	// Accepted is set for a run whose acceptance is already recorded, such as one of an
	// earlier process or a retry. MaxQueued does not apply to it.
	Accepted bool
}

// Enter adds a run to the queue and returns its place; it does not block. The error is
// runtime/overloaded, with the detail retry-after-ms, if too many runs wait already. An
// entry of an unknown class joins the first class of the settings.
func (q *Queue) Enter(e Entry) (*Place, *contract.Error) {
	p := q.Reserve(e)
	if err := p.Join(); err != nil {
		return nil, err
	}
	return p, nil
}

// Reserve returns a place outside the queue for a run that needs no worker yet. It
// counts towards no limit until Join.
func (q *Queue) Reserve(e Entry) *Place { return &Place{queue: q, entry: e} }

// Join adds a reserved place to the queue. The error is that of Enter; the place then
// stays outside the queue.
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

// Bounds of the retry-after time in the error of an overloaded class.
const (
	leastWait = time.Second
	mostWait  = 5 * time.Minute
)

// overloaded returns the error of a full class, with the time after which a place is
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

// startAll assigns free workers to waiting runs by deficit round robin over the classes,
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

// next returns the class whose next run may start, and uses up one of its starts; nil if
// no class can start a run.
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

// take removes and returns the next waiting place of the class. The class must have one.
func (c *class) take() *Place {
	for i := len(c.levels) - 1; i >= 0; i-- {
		if p := c.levels[i].take(); p != nil {
			return p
		}
	}
	panic("a class counts a run that has no place")
}

// Place is the place of one run in a queue. It is safe for concurrent use, except that
// Join must return before Turn is called.
type Place struct {
	queue   *Queue
	entry   Entry
	class   *class // nil: it has not joined the queue
	level   *level
	turn    chan struct{}
	begun   time.Time
	running bool
	paused  time.Time // since when it waits for people; zero: it does not
	gone    bool
}

var started = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Turn returns a channel that is closed when the run may start; nil for a reserved place
// that has not joined the queue.
func (p *Place) Turn() <-chan struct{} { return p.turn }

// Running reports whether the run was given a worker. It stays true after Pause and
// Leave.
func (p *Place) Running() bool {
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	return p.running
}

// Pause releases the worker of a run that only waits for people, until Continue. Without
// a worker it does nothing.
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

// Continue takes a worker again without waiting for a free one: more runs than workers
// may execute until others end.
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

// Leave removes the run from the queue or releases its worker. Only the first call has
// an effect.
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

// served adds the execution time of a run to the moving average.
func (c *class) served(d time.Duration) {
	if c.service == 0 {
		c.service = d
		return
	}
	c.service += (d - c.service) / 8
}

// Load is the number of running and waiting runs of one class.
type Load struct {
	Class            Class
	Running, Waiting int
}

// Loads returns the load of each class, sorted by name, including the removed classes
// that Configure kept.
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
