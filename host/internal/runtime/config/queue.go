package config

import (
	"fmt"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/request"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Queue holds the settings of the queue of accepted runs.
type Queue struct {
	Enabled   bool   // acts with :response/type :accepted are permitted
	Default   string // class of acts without one
	MaxQueued int
	Deadlines request.Deadlines
	Grace     time.Duration // time for a plugin to end a canceled call
	Retry     QueueRetry
	Classes   []QueueClass      // the class sync is the first
	Intents   map[string]string // name of the class by intent
}

// QueueRetry configures the retries of failed jobs and the delays between them.
type QueueRetry struct {
	MaxAttempts     int
	Backoff, Jitter time.Duration
}

// QueueClass is a class of runs. Either Workers or PerCore is set; the other one is 0.
type QueueClass struct {
	Name      string
	Workers   int
	PerCore   float64 // workers per processor core
	MaxQueued int
	Weight    int
}

func shippedClasses() []QueueClass {
	return []QueueClass{
		{Name: language.ClassSync, Workers: 256, MaxQueued: 1024, Weight: 4},
		{Name: language.ClassInteractive, PerCore: 8, MaxQueued: 256, Weight: 4},
		{Name: language.ClassBatch, PerCore: 2, MaxQueued: 256, Weight: 1},
	}
}

func (l *loader) queue() {
	s := l.Root.Block("queue")
	q := Queue{
		Enabled:   s.Flag("enabled"),
		Default:   s.Text("default_class"),
		MaxQueued: s.Integer("max_queued"),
		Deadlines: request.Deadlines{
			Usual:    s.Duration("deadline"),
			Accepted: s.Duration("async_deadline"),
			Most:     s.Duration("max_deadline"),
		},
		Grace:   s.Duration("cancel_grace"),
		Classes: shippedClasses(),
		Intents: map[string]string{},
	}
	for _, attr := range []string{"deadline", "async_deadline"} {
		l.atMost(s, attr, s.Duration(attr), "max_deadline", q.Deadlines.Most)
	}
	retry := s.Block("retry")
	q.Retry = QueueRetry{
		MaxAttempts: retry.Integer("max_attempts"),
		Backoff:     retry.Duration("backoff"),
		Jitter:      retry.Duration("jitter"),
	}
	for _, block := range s.All("class") {
		i := slices.IndexFunc(q.Classes, func(c QueueClass) bool { return c.Name == block.Label() })
		if i < 0 {
			i = len(q.Classes)
			q.Classes = append(q.Classes, QueueClass{Name: block.Label(), MaxQueued: 256, Weight: 1})
		}
		l.queueClass(block, &q.Classes[i])
	}
	var names []string
	for _, c := range q.Classes {
		names = append(names, c.Name)
	}
	l.classNamed(s, "default_class", names)
	for _, intent := range l.Root.All("intent") {
		if class := intent.Text("queue_class"); class != "" {
			l.classNamed(intent, "queue_class", names)
			q.Intents[intent.Label()] = class
		}
	}
	l.config.Queue = q
}

func (l *loader) queueClass(s *decode.Section, c *QueueClass) {
	workers, perCore := s.Written("workers"), s.Written("workers_per_core")
	switch {
	case s.Unread("workers"), s.Unread("workers_per_core"): // that is reported
	case workers && perCore, !workers && !perCore && c.Workers == 0 && c.PerCore == 0:
		l.report.Add(diag.Diagnostic{
			Type:     "config/range",
			Message:  fmt.Sprintf("%s needs either workers or workers_per_core", s.Node.Title()),
			Range:    s.At(),
			Path:     s.Node.Path,
			Expected: edn.Text("one of workers, workers_per_core"),
			Hint:     "write workers = 4, or workers_per_core = 2",
		})
	case workers:
		c.Workers, c.PerCore = s.Integer("workers"), 0
	case perCore:
		c.Workers, c.PerCore = 0, s.Number("workers_per_core")
	}
	if s.Written("max_queued") {
		c.MaxQueued = s.Integer("max_queued")
	}
	if s.Written("weight") {
		c.Weight = s.Integer("weight")
	}
}

// classNamed reports a reference to a class that does not exist.
func (l *loader) classNamed(s *decode.Section, attr string, known []string) {
	name := s.Text(attr)
	if slices.Contains(known, name) || l.report.Doubts("class", name) {
		return
	}
	slices.Sort(known)
	l.report.Add(diag.Diagnostic{
		Type:     "config/dangling-reference",
		Message:  fmt.Sprintf("%s names the unknown class %s", s.Node.Title(), diag.Quote(name)),
		Range:    s.Attrs[attr].At,
		Path:     s.PathOf(attr),
		Expected: diag.Words(known),
		Found:    edn.Text(name),
		Nearest:  diag.Nearest(name, known),
	})
}
