package watch

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fermenthq/ferment/plugins/workspace/core"
	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/scan"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = time.Minute

// manual is a clock that a test moves.
type manual struct {
	mu      sync.Mutex
	changed sync.Cond
	now     time.Time
	timers  map[*timer]bool
}

type timer struct {
	due time.Time
	c   chan time.Time
}

func newManual() *manual {
	c := &manual{now: time.Unix(1_000_000, 0), timers: map[*timer]bool{}}
	c.changed.L = &c.mu
	return c
}

func (c *manual) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *manual) NewTimer(d time.Duration) (<-chan time.Time, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &timer{due: c.now.Add(d), c: make(chan time.Time, 1)}
	c.timers[t] = true
	c.fire()
	c.changed.Broadcast()
	return t.c, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.timers, t)
		c.changed.Broadcast()
	}
}

func (c *manual) fire() {
	for t := range c.timers {
		if !t.due.After(c.now) {
			delete(c.timers, t)
			t.c <- c.now
		}
	}
}

// advance moves the clock.
func (c *manual) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.fire()
}

// await blocks until a timer waits for exactly this duration.
func (c *manual) await(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		for t := range c.timers {
			if t.due.Sub(c.now) == d {
				return
			}
		}
		c.changed.Wait()
	}
}

// rig is a watched workspace.
type rig struct {
	t         testing.TB
	root      string
	workspace *core.Workspace
	watcher   *Watcher
}

func newRig(t testing.TB, o Options, files ...string) *rig {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	r := &rig{t: t, root: root}
	r.write(files...)
	r.workspace, err = core.Open(context.Background(), root, core.Options{
		Allowed: []string{root},
		DataDir: filepath.Join(t.TempDir(), "data"),
		NewID:   func() string { return "w" },
		Store:   store.Options{Now: func() int64 { return 1 }, Unsynced: true},
	})
	require.NoError(t, err)
	r.watcher = New(r.workspace, o)
	t.Cleanup(func() {
		r.watcher.Close()
		assert.NoError(t, r.workspace.Close())
	})
	return r
}

// quick are options with which a test need not wait, and with which nothing is
// found except through events.
func quick() Options {
	return Options{Debounce: 4 * time.Millisecond, Batch: 2 * time.Millisecond, Poll: time.Hour, Reconcile: time.Hour}
}

func (r *rig) path(path string) string { return filepath.Join(r.root, path) }

// write makes files with their path as text. A path that ends in a slash is a
// directory.
func (r *rig) write(files ...string) {
	r.t.Helper()
	for _, f := range files {
		if strings.HasSuffix(f, "/") {
			require.NoError(r.t, os.MkdirAll(r.path(f), 0o755))
			continue
		}
		r.text(f, f)
	}
}

// save writes a file as most programs do: a scan in between finds it empty.
func (r *rig) save(path, text string) {
	r.t.Helper()
	require.NoError(r.t, os.MkdirAll(filepath.Dir(r.path(path)), 0o755))
	require.NoError(r.t, os.WriteFile(r.path(path), []byte(text), 0o644))
}

// text gives a file a text in one step, so that there is one change.
func (r *rig) text(path, text string) {
	r.t.Helper()
	f, err := os.OpenFile(r.path(path), os.O_WRONLY, 0)
	if err != nil { // a new file comes from elsewhere
		made := filepath.Join(r.t.TempDir(), "f")
		require.NoError(r.t, os.WriteFile(made, []byte(text), 0o644))
		require.NoError(r.t, os.MkdirAll(filepath.Dir(r.path(path)), 0o755))
		require.NoError(r.t, os.Rename(made, r.path(path)))
		return
	}
	defer func() { require.NoError(r.t, f.Close()) }()
	before, err := f.Seek(0, io.SeekEnd)
	require.NoError(r.t, err)
	require.LessOrEqual(r.t, before, int64(len(text)), "a shorter text takes a second step: use save")
	_, err = f.WriteAt([]byte(text), 0)
	require.NoError(r.t, err)
}

func (r *rig) rename(from, to string) {
	r.t.Helper()
	require.NoError(r.t, os.Rename(r.path(from), r.path(to)))
}

func (r *rig) remove(path string) {
	r.t.Helper()
	require.NoError(r.t, os.RemoveAll(r.path(path)))
}

// fresh returns the root of a scan that knows nothing.
func (r *rig) fresh() id.ID { return r.scanned().Root.ID }

// scanned returns the tree of a scan that knows nothing.
func (r *rig) scanned() *tree.Tree {
	r.t.Helper()
	result, err := scan.Run(context.Background(), scan.Options{Root: r.root, Scheme: r.workspace.Store.Scheme})
	require.NoError(r.t, err)
	return result.Tree
}

// sub is a subscription of a test.
type sub struct {
	*Subscription
	t testing.TB
}

func (r *rig) subscribe(o SubscribeOptions) *sub {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := r.watcher.Subscribe(ctx, o)
	require.NoError(r.t, err)
	r.t.Cleanup(s.Close)
	return &sub{s, r.t}
}

// next returns the next event.
func (s *sub) next() *Event {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	e, err := s.Next(ctx)
	require.NoError(s.t, err)
	return e
}

// expect returns the next event, which has the kind.
func (s *sub) expect(kind Kind) *Event {
	s.t.Helper()
	e := s.next()
	require.Equal(s.t, kind, e.Kind, "%+v", e)
	return e
}

// silent asserts that nothing is to be reported now.
func (s *sub) silent() {
	s.t.Helper()
	w, err := s.gather(context.Background())
	require.NoError(s.t, err)
	require.NotNil(s.t, w.notice)
	require.Empty(s.t, s.queue)
}

// settles reads events until the tree is that of a fresh scan.
func (s *sub) settles(r *rig) (kinds []Kind) {
	s.t.Helper()
	want, got := r.fresh(), id.ID{}
	require.NoError(s.t, r.workspace.Store.View(context.Background(), store.Latest, func(v *store.Snapshot) (err error) {
		got, err = v.RootAt(context.Background(), v.Seq())
		return err
	}))
	for got != want {
		e := s.next()
		if kinds = append(kinds, e.Kind); e.Kind == Change || e.Kind == Rescan {
			got = e.Root
		}
	}
	for {
		if s.silentNow() {
			return kinds
		}
		kinds = append(kinds, s.next().Kind)
	}
}

func (s *sub) silentNow() bool {
	_, err := s.gather(context.Background())
	require.NoError(s.t, err)
	return len(s.queue) == 0 && len(s.hooks) == 0
}

// sees asserts that a change in every directory of the tree is found, so that no
// directory lost its watch.
func (s *sub) sees(r *rig) {
	s.t.Helper()
	var dirs []string
	require.NoError(s.t, r.workspace.Store.View(context.Background(), store.Latest, func(v *store.Snapshot) error {
		tr, err := v.Tree(context.Background())
		require.NoError(s.t, err)
		tr.Walk(func(path string, n *tree.Node) bool {
			if n.Mode == id.Dir {
				dirs = append(dirs, path)
			}
			return true
		})
		return nil
	}))
	slices.Reverse(dirs)
	for _, dir := range dirs {
		r.save(dir+"/seen.keep", dir+time.Now().String())
	}
	s.settles(r)
}
