package learned

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/bandit"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Key names a group: the calls of one intent in one bucket. Without buckets the bucket
// is empty.
type Key struct{ Intent, Bucket string }

// Store stores one text per group. It is safe for concurrent use.
type Store interface {
	// Learned returns the text of a group, empty if there is none.
	Learned(ctx context.Context, k Key) (string, error)
	// AllLearned returns the texts of all groups.
	AllLearned(ctx context.Context) (map[Key]string, error)
	// Learn replaces the text of a group in a transaction of its own. change gets the
	// present text, empty if there is none, and returns the new one; it is called again
	// if the transaction is executed again. Learn does not wait: done is called once the
	// text is durable, in the order of the transactions, and never if the store fails.
	Learn(k Key, change func(text string) string, done func())
}

// Book holds the groups of a host. It is safe for concurrent use. NewBook makes one.
type Book struct {
	store  Store
	notice func(stats.Notice)

	mu     sync.Mutex
	groups map[Key]*bandit.Group
}

// NewBook returns a Book over a store; nil: one in memory. notice gets the events and
// must be quick; it may be nil.
func NewBook(s Store, notice func(stats.Notice)) *Book {
	if s == nil {
		s = &Memory{}
	}
	if notice == nil {
		notice = func(stats.Notice) {}
	}
	return &Book{store: s, notice: notice, groups: map[Key]*bandit.Group{}}
}

// Group returns the last known counts of a group, which must not be changed. The group
// is empty if the store has none or cannot be read.
func (b *Book) Group(ctx context.Context, k Key) *bandit.Group {
	if g := b.known(k); g != nil {
		return g
	}
	text, err := b.store.Learned(ctx, k)
	if err != nil {
		return &bandit.Group{} // the store may answer the next time
	}
	g, _ := open(text)
	b.mu.Lock()
	defer b.mu.Unlock()
	if newer := b.groups[k]; newer != nil {
		return newer
	}
	b.groups[k] = g
	return g
}

func (b *Book) known(k Key) *bandit.Group {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.groups[k]
}

// open reads the text of a group. An empty group comes with the reason for it.
func open(text string) (g *bandit.Group, why string) {
	if text == "" {
		return &bandit.Group{}, "nothing is stored"
	}
	g, err := bandit.Parse(text)
	if err != nil {
		return &bandit.Group{}, fmt.Sprintf("what is stored cannot be read: %s", err)
	}
	return g, ""
}

// Add counts an outcome of a group. It returns before the outcome is durable; if the
// store fails, the outcome is lost without an error.
func (b *Book) Add(k Key, o bandit.Outcome, s *policy.Learned) {
	var g *bandit.Group
	var events []stats.Notice
	b.store.Learn(k, func(text string) string {
		var why string
		g, why = open(text)
		events = events[:0]
		if why != "" {
			events = append(events, k.notice(o, stats.EventPriorsReset, "", edn.MustMap(edn.K("why"), edn.Text(why))))
		}
		if d := g.Add(o, s); d != nil {
			events = append(events, k.notice(o, stats.EventOutcomesDrift, o.CapID, edn.MustMap(
				edn.K("why"), edn.Text(fmt.Sprintf("%d of its last %d answers passed, of those before %.0f %% did", d.Passes,
					bandit.RecentTrials, 100*d.Before)))))
		}
		return g.Text()
	}, func() {
		b.mu.Lock()
		b.groups[k] = g
		b.mu.Unlock()
		for _, n := range events {
			b.notice(n)
		}
	})
}

// notice returns an event about a group. capID may be empty.
func (k Key) notice(o bandit.Outcome, event, capID string, details edn.Value) stats.Notice {
	if k.Bucket != "" {
		details = details.AssocKey("bucket", edn.Text(k.Bucket))
	}
	return stats.Notice{At: o.At, Event: event, CapID: capID, Intent: k.Intent, Details: details}
}

// Memory is a Store in memory. The zero value is ready.
type Memory struct {
	mu    sync.Mutex
	texts map[Key]string
}

var _ Store = (*Memory)(nil)

// Learned implements Store.
func (m *Memory) Learned(_ context.Context, k Key) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.texts[k], nil
}

// AllLearned implements Store.
func (m *Memory) AllLearned(context.Context) (map[Key]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.texts), nil
}

// Learn implements Store. It calls change and done before it returns, with its lock held:
// they must not call the Memory.
func (m *Memory) Learn(k Key, change func(text string) string, done func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.texts == nil {
		m.texts = map[Key]string{}
	}
	m.texts[k] = change(m.texts[k])
	done()
}
