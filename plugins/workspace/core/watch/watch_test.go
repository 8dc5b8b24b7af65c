package watch

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/scan"
	"github.com/fermenthq/ferment/sdk/contract"
)

var background = context.Background()

// mark marks a directory dirty, as an event does.
func (r *rig) mark(dirs ...string) {
	run, b := r.watcher.run, batch{dirs: map[string]bool{}}
	for _, dir := range dirs {
		b.dirs[dir] = true
	}
	run.dirty.mark(run.o.Clock.Now(), b)
}

// WS-160: dirty directories are committed when it was quiet for 100 ms and 50 ms
// more. More edits in between make one transaction. Without an event for it, a
// file of a dirty directory is found, one of another is not.
func TestQuietTime(t *testing.T) {
	clock := newManual()
	r := newRig(t, Options{Clock: clock, Poll: time.Hour, Heartbeat: time.Hour}, "d/e/f", "d/g", "h")
	s := r.subscribe(SubscribeOptions{})
	s.expect(Ready)
	r.watcher.run.watches.close() // the events are those of the test

	r.text("d/e/f", "changed")
	r.mark("d")
	clock.await(100 * time.Millisecond)
	clock.advance(99 * time.Millisecond)
	r.write("d/new")
	r.mark("d")
	clock.advance(time.Millisecond) // the first quiet time ends, the second goes on
	clock.await(99 * time.Millisecond)
	s.silent()
	clock.advance(99 * time.Millisecond)
	clock.await(50 * time.Millisecond)
	s.silent()
	r.remove("h")
	r.mark("")
	clock.advance(50 * time.Millisecond)
	e := s.expect(Change)
	assert.Equal(t, []string{"d/new"}, e.Added)
	assert.Equal(t, []string{"h"}, e.Removed)
	assert.Empty(t, e.Modified)
	assert.Equal(t, clock.Now(), e.Time)
	s.expect(Degraded) // it cannot watch any more
	s.silent()
}

// WS-160: changes that never pause are committed too, after ten times the quiet
// time.
func TestChangesThatNeverPause(t *testing.T) {
	clock := newManual()
	r := newRig(t, Options{Clock: clock, Poll: time.Hour, Heartbeat: time.Hour}, "f")
	s := r.subscribe(SubscribeOptions{})
	s.expect(Ready)
	r.watcher.run.watches.close()
	r.text("f", "changed")
	r.mark("")
	quiet := 100 * time.Millisecond
	spent := time.Duration(0)
	for spent+quiet < time.Second {
		clock.await(quiet)
		clock.advance(quiet / 2)
		r.mark("")
		clock.advance(quiet - quiet/2)
		spent, quiet = spent+quiet, 100*time.Millisecond-(quiet-quiet/2)
	}
	clock.await(time.Second - spent)
	clock.advance(time.Second - spent)
	clock.await(50 * time.Millisecond)
	clock.advance(50 * time.Millisecond)
	assert.Equal(t, []string{"f"}, s.expect(Change).Modified)
}

// WS-163: a change is reported with its ancestors and the new root.
func TestChange(t *testing.T) {
	slow := quick()
	slow.Debounce, slow.Batch = 200*time.Millisecond, 100*time.Millisecond // one event for all changes on a busy machine too
	r := newRig(t, slow, "d/e/f", "d/g", "h")
	s := r.subscribe(SubscribeOptions{})
	ready := s.expect(Ready)
	assert.Equal(t, r.fresh(), ready.Root)
	assert.Nil(t, ready.Changes)
	assert.Equal(t, 3, r.watcher.State().Watched)
	queue := r.watcher.run.dirty
	queue.mu.Lock() // all changes come at once
	r.text("d/e/f", "changed")
	r.write("d/new")
	r.remove("h")
	queue.mu.Unlock()
	e := s.expect(Change)
	assert.Equal(t, r.fresh(), e.Root)
	assert.Equal(t, []string{"d/new"}, e.Added)
	assert.Equal(t, []string{"d/e/f"}, e.Modified)
	assert.Equal(t, []string{"h"}, e.Removed)
	assert.Equal(t, []string{"", "d", "d/e"}, e.Ancestors)
	assert.Equal(t, Counts{Added: 1, Modified: 1, Removed: 1, Ancestors: 3}, e.Counts)
	assert.Equal(t, ready.Commit+1, e.Commit)
	assert.Equal(t, ready.Seq+1, e.Seq)
	s.silent()
}

// WS-163: a subscription that is silent for 15 s gets a heartbeat.
func TestHeartbeat(t *testing.T) {
	clock := newManual()
	r := newRig(t, Options{Clock: clock, Poll: time.Hour}, "f")
	s := r.subscribe(SubscribeOptions{})
	ready := s.expect(Ready)
	go func() {
		clock.await(15 * time.Second)
		clock.advance(15 * time.Second)
	}()
	e := s.expect(Heartbeat)
	assert.Equal(t, ready.Commit, e.Commit)
	assert.Equal(t, 15*time.Second, e.Time.Sub(ready.Time))
}

// WS-161: a change that no event announced is found every ten minutes.
func TestReconcile(t *testing.T) {
	clock := newManual()
	r := newRig(t, Options{Clock: clock, Poll: time.Hour, Heartbeat: time.Hour}, "d/f")
	s := r.subscribe(SubscribeOptions{})
	s.expect(Ready)
	r.watcher.run.watches.close() // from here on the system says nothing
	r.text("d/f", "changed")
	clock.await(10 * time.Minute)
	clock.advance(10 * time.Minute)
	assert.Equal(t, []string{"d/f"}, s.expect(Change).Modified)
}

// WS-161: if more is dirty than the queue takes, everything is scanned: Overflow,
// then Rescan with the true changes, for each consumer.
func TestFullQueue(t *testing.T) {
	o := quick()
	o.Queue = 3
	r := newRig(t, o, "a/f", "b/f", "c/f", "d/f", "e/f")
	subs := []*sub{r.subscribe(SubscribeOptions{}), r.subscribe(SubscribeOptions{})}
	for _, s := range subs {
		s.expect(Ready)
	}
	r.watcher.run.watches.close() // all changes come at once, and only once
	dirs := []string{"a", "b", "c", "d", "e"}
	for _, dir := range dirs {
		r.text(dir+"/f", "changed")
	}
	r.mark(dirs...)
	for _, s := range subs {
		before := s.expect(Overflow)
		e := s.expect(Rescan)
		assert.Equal(t, []string{"a/f", "b/f", "c/f", "d/f", "e/f"}, e.Modified)
		assert.Equal(t, before.Commit+1, e.Commit)
		s.silent()
	}
	assert.Equal(t, 1, r.watcher.State().Overflows)
	subs[0].sees(r)
}

// WS-161: while the scan after an overflow is not finished, its changes are not
// reported as others.
func TestChangesWaitForTheRescan(t *testing.T) {
	r := newRig(t, quick(), "f")
	s := r.subscribe(SubscribeOptions{})
	s.expect(Ready)
	run := r.watcher.run
	run.say(notice{kind: Overflow}, true)
	s.expect(Overflow)
	r.text("f", "changed")
	_, err := r.workspace.Scan(background, scan.Options{})
	require.NoError(t, err)
	w, err := s.gather(background)
	require.NoError(t, err)
	assert.Nil(t, w.committed)
	assert.Empty(t, s.queue)
	run.say(notice{kind: Rescan}, false)
	assert.Equal(t, []string{"f"}, s.expect(Rescan).Modified)
}

// WS-161: what is made in a new directory, before and after it is watched.
func TestNewDirectories(t *testing.T) {
	r := newRig(t, quick(), "f")
	s := r.subscribe(SubscribeOptions{})
	s.expect(Ready)
	r.write("a/b/c/d", "a/x/y/", "z/")
	s.settles(r)
	r.text("a/b/c/d", "changed")
	r.write("a/x/y/new")
	s.settles(r)
	r.rename("a", "f2")
	r.write("f2/b/c/more")
	s.settles(r)
	r.text("f2/b/c/d", "changed again")
	s.settles(r)
	s.sees(r)
}

// WS-162: what exceeds the limit of watches is polled every 2 s; consumers and
// the state say so, also those that come later and when it ends.
func TestWatchLimit(t *testing.T) {
	clock := newManual()
	o := Options{Clock: clock, Reconcile: time.Hour, Heartbeat: time.Hour, MaxWatches: 2}
	r := newRig(t, o, "a/f", "b/f", "c/d/f")
	s := r.subscribe(SubscribeOptions{})
	s.expect(Ready)
	assert.Equal(t, 3, s.expect(Degraded).Polled)
	assert.Equal(t, State{Subscriptions: 1, Watched: 2, Polled: 3}, r.watcher.State())
	later := r.subscribe(SubscribeOptions{})
	later.expect(Ready)
	assert.Equal(t, 3, later.expect(Degraded).Polled)
	later.Close()

	poll := func() {
		clock.await(2 * time.Second)
		clock.advance(2 * time.Second)
	}
	// Directories are watched in the order in which they are listed.
	watched := r.watcher.run.watches.dirs
	for _, dir := range []string{"a", "b", "c/d"} {
		if !watched[dir] {
			r.text(dir+"/f", "changed "+dir)
			poll()
			assert.Equal(t, []string{dir + "/f"}, s.expect(Change).Modified)
			r.write(dir + "/new/g")
			poll()
			assert.Equal(t, []string{dir + "/new", dir + "/new/g"}, s.expect(Change).Added)
			r.remove(dir + "/new")
			poll()
			assert.Equal(t, []string{dir + "/new", dir + "/new/g"}, s.expect(Change).Removed)
		}
	}
	clock.await(2 * time.Second) // the watch of what was removed ends after the commit
	assert.Equal(t, 3, r.watcher.State().Polled)
	r.watcher.run.watches.mu.Lock()
	r.watcher.run.watches.max = 0
	r.watcher.run.watches.mu.Unlock()
	poll()
	assert.Zero(t, s.expect(Degraded).Polled)
	assert.Equal(t, 5, r.watcher.State().Watched)
}

// WS-162: a root that is removed, or replaced, ends the stream with an error.
func TestRootLost(t *testing.T) {
	for name, lose := range map[string]func(r *rig){
		"removed":  func(r *rig) { r.remove("") },
		"replaced": func(r *rig) { r.rename("", "../old"); r.write("f") },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, quick(), "d/f")
			s := r.subscribe(SubscribeOptions{})
			s.expect(Ready)
			lose(r)
			var e *Event
			for e = s.next(); e.Kind != RootLost; e = s.next() {
				assert.Equal(t, Change, e.Kind)
			}
			require.ErrorIs(t, e.Err, contract.OfType("watch/root-lost"))
			_, err := s.Next(background)
			require.ErrorIs(t, err, contract.OfType("watch/root-lost"))
			_, err = r.watcher.Subscribe(background, SubscribeOptions{})
			if name == "removed" {
				require.ErrorIs(t, err, contract.OfType("watch/root-lost"))
			} else {
				require.NoError(t, err, "what is there now is watched anew")
			}
		})
	}
}

// WS-162: ignored directories are not watched, also when rules change.
func TestIgnoredDirectoriesAreNotWatched(t *testing.T) {
	r := newRig(t, quick(), "d/f", "out/a/f", "out/b/f")
	r.text(".gitignore", "out/\n")
	s := r.subscribe(SubscribeOptions{})
	s.expect(Ready)
	assert.Equal(t, 2, r.watcher.State().Watched)
	r.save(".gitignore", "/d/\n")
	s.settles(r)
	// The watches follow the commit that is reported.
	require.Eventually(t, func() bool { return r.watcher.State().Watched == 4 }, patience, time.Millisecond)
	r.text("out/a/f", "changed")
	s.settles(r)
	s.sees(r)
	watches := r.watcher.run.watches
	r.watcher.Close()
	assert.NotContains(t, watches.dirs, "d")
}

// WS-016, WS-160: a commit in a nested repository changes its leaf, although the
// files of git are not part of the tree.
func TestNestedRepository(t *testing.T) {
	o := quick()
	o.Scan.Boundaries = true
	r := newRig(t, o, "n/.git/objects/", "n/.git/refs/heads/", "n/f")
	commit := func(c string) {
		r.text("n/.git/HEAD.lock", strings.Repeat(c, 40)+"\n")
		r.rename("n/.git/HEAD.lock", "n/.git/HEAD")
	}
	commit("a")
	s := r.subscribe(SubscribeOptions{})
	s.expect(Ready)
	commit("b")
	assert.Equal(t, []string{"n"}, s.expect(Change).Modified)
}

// A scan that fails is reported once and tried again; what it found then is a
// change.
func TestFailedScans(t *testing.T) {
	o := quick()
	r := newRig(t, o, "f")
	s := r.subscribe(SubscribeOptions{})
	s.expect(Ready)
	r.text(".gitignore", strings.Repeat("x", 1<<20+1))
	e := s.expect(Error)
	require.ErrorIs(t, e.Err, contract.OfType("ignore/invalid"))
	require.Error(t, r.watcher.State().Err)
	r.write("g")
	require.NoError(t, os.Truncate(r.path(".gitignore"), 0))
	assert.Equal(t, []string{".gitignore", "g"}, s.expect(Change).Added)
	// The state follows the commit that is reported.
	require.Eventually(t, func() bool { return r.watcher.State().Err == nil }, patience, time.Millisecond)
}

// Subscriptions share one watch. Closing it ends all of them.
func TestClose(t *testing.T) {
	r := newRig(t, quick(), "f")
	a, b := r.subscribe(SubscribeOptions{}), r.subscribe(SubscribeOptions{})
	assert.Same(t, a.run, b.run)
	a.expect(Ready)
	b.expect(Ready)
	a.Close()
	a.Close()
	r.write("g")
	b.expect(Change)
	ctx, cancel := context.WithCancel(background)
	cancel()
	_, err := b.Next(ctx)
	require.ErrorIs(t, err, contract.OfType("canceled"))
	r.write("h")
	b.expect(Change)
	r.watcher.Close()
	_, err = b.Next(background)
	require.ErrorIs(t, err, contract.OfType("canceled"))
	_, err = r.watcher.Subscribe(background, SubscribeOptions{})
	require.ErrorIs(t, err, contract.OfType("canceled"))
}
