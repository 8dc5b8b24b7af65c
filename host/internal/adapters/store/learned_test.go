package store

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/bandit"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/learned"
	"github.com/fermenthq/ferment/host/internal/orchestration/dispatch/stats"
)

// notices collects the events of a Book, which come from the writer.
type notices struct {
	mu  sync.Mutex
	all []stats.Notice
}

func (n *notices) add(one stats.Notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, one)
}

func (n *notices) events() (out []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, one := range n.all {
		why, _ := one.Details.Key("why").AsString()
		out = append(out, one.Event+" "+strings.SplitN(why, ":", 2)[0])
	}
	return out
}

var (
	learnedKey   = learned.Key{Intent: "text/respond", Bucket: "small"}
	learnedRules = &policy.Learned{Prior: policy.Prior{Passes: 1, Fails: 1}, HalfLife: 24 * time.Hour}
	learnedArm   = bandit.Arm{CapID: "x/a", Major: 1}
)

func learnedOutcome(pass bool) bandit.Outcome {
	return bandit.Outcome{Arm: learnedArm, Pass: pass, At: now(), First: true, Among: []bandit.Arm{learnedArm, {CapID: "x/b"}}}
}

// drain returns when every outcome that was added is durable.
func drain(t testing.TB, s *Store) {
	t.Helper()
	require.NoError(t, s.change(context.Background(), func(context.Context) error { return nil }))
}

func belief(b *learned.Book) bandit.Belief {
	return b.Group(context.Background(), learnedKey).Belief(learnedArm, bandit.Declared{}, learnedRules, now())
}

// LRN-005, LRN-006 (restart): counts are there after the store was opened again, in
// their bucket, and the event about a group that starts is told once.
func TestLearnedLasts(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		dir := t.TempDir()
		s := b.openAt(t, dir)
		var first notices
		book := learned.NewBook(s, first.add)
		for n := range 30 {
			book.Add(learnedKey, learnedOutcome(n%3 > 0), learnedRules)
		}
		drain(t, s)
		want := belief(book)
		assert.InDelta(t, 20, want.Passes, 1e-9)
		assert.Equal(t, []string{"dispatch/priors-reset nothing is stored"}, first.events())
		require.NoError(t, s.Close())

		s = b.openAt(t, dir)
		var second notices
		book = learned.NewBook(s, second.add)
		assert.Equal(t, want, belief(book))
		book.Add(learnedKey, learnedOutcome(true), learnedRules)
		drain(t, s)
		assert.InDelta(t, 21, belief(book).Passes, 1e-9)
		assert.Empty(t, second.events())
		other := book.Group(context.Background(), learned.Key{Intent: "text/respond"})
		assert.Empty(t, other.Known())
		all, err := s.AllLearned(context.Background())
		require.NoError(t, err)
		assert.Len(t, all, 1)
	})
}

// LRN-005: a text that cannot be read is as a missing one: the priors, the declared
// order, and the event with the reason.
func TestUnreadableLearned(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		dir := t.TempDir()
		s := b.openAt(t, dir)
		book := learned.NewBook(s, nil)
		for range 60 {
			book.Add(learnedKey, learnedOutcome(true), learnedRules)
		}
		drain(t, s)
		among := learnedOutcome(true).Among
		assert.False(t, book.Group(context.Background(), learnedKey).Cold(among))
		require.NoError(t, s.Close())
		b.tamper(t, dir, "UPDATE learned SET counts = '{:version 1 :arms'")

		s = b.openAt(t, dir)
		var told notices
		book = learned.NewBook(s, told.add)
		assert.True(t, book.Group(context.Background(), learnedKey).Cold(among))
		assert.Zero(t, belief(book).Passes)
		for range 50 {
			assert.True(t, book.Group(context.Background(), learnedKey).Cold(among))
			book.Add(learnedKey, learnedOutcome(true), learnedRules)
			drain(t, s)
		}
		assert.False(t, book.Group(context.Background(), learnedKey).Cold(among))
		assert.Equal(t, []string{"dispatch/priors-reset what is stored cannot be read"}, told.events())
	})
}

// LRN-006: outcomes that are counted at once lose nothing, from many goroutines and, in a
// database that hosts share, from two hosts.
func TestLearnedAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		const writers, outcomes = 4, 25
		dir := t.TempDir()
		stores := []*Store{b.openAt(t, dir)}
		if b.driver != "sqlite" {
			stores = append(stores, b.openAt(t, dir, func(o *Options) { o.Postgres.Host = "other" }))
		}
		var wait sync.WaitGroup
		books := make([]*learned.Book, len(stores))
		for i, s := range stores {
			books[i] = learned.NewBook(s, nil)
			for w := range writers {
				wait.Go(func() {
					for n := range outcomes {
						book := books[i]
						o := learnedOutcome((n+w)%2 == 0)
						o.Major = w
						book.Add(learnedKey, o, learnedRules)
						book.Add(learnedKey, learnedOutcome(true), learnedRules)
					}
				})
			}
		}
		wait.Wait()
		for _, s := range stores {
			drain(t, s)
		}
		for i, s := range stores {
			g := learned.NewBook(s, nil).Group(context.Background(), learnedKey)
			for w := range writers {
				want := outcomes * len(stores)
				if w == 1 { // the arm of all other outcomes too
					want += writers * outcomes * len(stores)
				}
				got := g.Belief(bandit.Arm{CapID: "x/a", Major: w}, bandit.Declared{}, learnedRules, now())
				assert.Equal(t, want, got.Outcomes, fmt.Sprint(i, w))
			}
		}
	})
}

// OPS-007: a database of version 4 gets the table and keeps its runs; the way back loses
// what was learned, which must be allowed.
func TestMigrateToLearned(t *testing.T) {
	dir := filled(t)
	path := filepath.Join(dir, "ferment.db")
	migrate(t, Options{Path: path}, 4, true)
	s := openAt(t, dir)
	book := learned.NewBook(s, nil)
	book.Add(learnedKey, learnedOutcome(true), learnedRules)
	drain(t, s)
	runs, err := s.Runs(context.Background(), Filter{})
	require.NoError(t, err)
	assert.Len(t, runs, 3)
	require.NoError(t, s.Close())
	var loss *LossError
	require.ErrorAs(t, migrated(Options{Path: path}, 4, false), &loss)
}

// JRN-030: a repair keeps what was learned.
func TestRepairKeepsLearned(t *testing.T) {
	for _, page := range []bool{false, true} {
		dir := filled(t)
		s := openAt(t, dir)
		book := learned.NewBook(s, nil)
		book.Add(learnedKey, learnedOutcome(true), learnedRules)
		drain(t, s)
		require.NoError(t, s.Close())
		if page {
			zeroPage(t, dir, 0)
		} else {
			tamper(t, dir, "UPDATE records SET body = 'x' WHERE id = (3 << 32) | 6")
		}
		require.False(t, repair(t, dir, false).Sound())
		s = openAt(t, dir)
		assert.InDelta(t, 1, belief(learned.NewBook(s, nil)).Passes, 1e-9)
		require.NoError(t, s.Close())
	}
}
