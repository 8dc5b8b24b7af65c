package watch

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/sdktest/proof"
)

// WS-160: chains of renames, of files and of directories whose names are taken
// by others at once.
func TestRenameChains(t *testing.T) {
	r := newRig(t, quick(), "a/x/f", "b/y/f", "c/z/f", "f0")
	s := r.subscribe(SubscribeOptions{})
	s.expect(Ready)
	for range proof.Size(t, "chains of renames", 8, 300) {
		for i := range 30 {
			r.rename("f"+strconv.Itoa(i), "f"+strconv.Itoa(i+1))
		}
		r.rename("f30", "f0")
		for _, pair := range [][2]string{{"a", "t"}, {"b", "a"}, {"c", "b"}, {"t", "c"}} { // the three change places
			r.rename(pair[0], pair[1])
		}
		r.save("a/moved", time.Now().String())
		s.settles(r)
	}
	s.sees(r)
}

// WS-160: what editors and tools do to write one file.
func TestSavesOfEditors(t *testing.T) {
	r := newRig(t, quick(), "d/f", "d/other")
	s := r.subscribe(SubscribeOptions{})
	s.expect(Ready)
	saves := []func(text string){
		func(text string) { r.save("d/f", text) },                                 // truncate and write
		func(text string) { r.save("d/f.tmp", text); r.rename("d/f.tmp", "d/f") }, // replace
		func(text string) { // a backup, and a probe of the directory
			r.write("d/4913")
			r.remove("d/4913")
			r.rename("d/f", "d/f~")
			r.save("d/f", text)
			r.remove("d/f~")
		},
		func(text string) { // a swap file beside it, append
			r.write("d/.f.swp")
			f, err := os.OpenFile(r.path("d/f"), os.O_APPEND|os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteString(text)
			require.NoError(t, err)
			require.NoError(t, f.Close())
			r.remove("d/.f.swp")
		},
		func(text string) { // unlink and create
			r.remove("d/f")
			r.save("d/f", text)
		},
		func(string) { require.NoError(t, os.Chmod(r.path("d/f"), 0o755)) },
		func(string) { require.NoError(t, os.Chmod(r.path("d/f"), 0o644)) },
		func(text string) { // a link in its place
			r.remove("d/f")
			require.NoError(t, os.Symlink("other", r.path("d/f")))
			_ = text
		},
		func(text string) { // the whole directory is replaced
			r.save("new/f", text)
			r.save("new/other", text)
			r.rename("d", "old")
			r.rename("new", "d")
			r.remove("old")
		},
	}
	for round := range proof.Size(t, "rounds of saves", 3, 100) {
		for i, save := range saves {
			save(fmt.Sprint("text ", round, i, time.Now()))
			s.settles(r)
		}
	}
	s.sees(r)
}

// WS-160, WS-161: many files in many new directories, and their removal.
func TestManyFiles(t *testing.T) {
	r := newRig(t, quick(), "f")
	s := r.subscribe(SubscribeOptions{})
	s.expect(Ready)
	files := proof.Size(t, "created files", 2000, 100_000)
	for i := range files {
		dir := r.path(fmt.Sprintf("d%d/e%d", i%7, i%100))
		if i < 700 {
			require.NoError(t, os.MkdirAll(dir, 0o755))
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), strconv.AppendInt(nil, int64(i), 10), 0o644))
	}
	s.settles(r)
	s.sees(r)
	for i := range 6 {
		r.remove(fmt.Sprint("d", i))
	}
	s.settles(r)
	s.sees(r)
}

// WS-161: the queue of the system overflows while nothing reads it.
func TestOverflowOfTheSystem(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	if err != nil {
		t.Skip("the system has no such queue")
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	if limit > 100_000 {
		t.Skipf("the queue has %d places", limit)
	}
	r := newRig(t, quick(), "d/f", "e/f")
	s := r.subscribe(SubscribeOptions{})
	s.expect(Ready)
	queue := r.watcher.run.dirty
	queue.mu.Lock()
	for i := range limit/2 + 4096 { // creation and removal
		name := r.path("d/" + strconv.Itoa(i))
		require.NoError(t, os.Mkdir(name, 0o755))
		require.NoError(t, os.Remove(name))
	}
	r.save("e/f", "changed")
	r.rename("d", "moved")
	queue.mu.Unlock()
	kinds := s.settles(r)
	assert.Contains(t, kinds, Overflow)
	assert.Contains(t, kinds, Rescan)
	s.sees(r)
}

// WS-160 to WS-163: after any operations the tree is that of a fresh scan, every
// directory is still watched, and one who follows the events knows every path.
func TestRandomOperations(t *testing.T) {
	for seed := range proof.Size(t, "storms", 3, 120) {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(seed), 160))
			o := quick()
			if seed%3 == 1 {
				o.Queue = 5
			}
			if seed%3 == 2 {
				o.MaxWatches, o.Poll = 4, 5*time.Millisecond
			}
			o.Scan.Workers = 1 + random.IntN(3)
			r := newRig(t, o, "a/b/c", "a/d", "e/f/g/h", "i")
			s := r.subscribe(SubscribeOptions{})
			ready := s.expect(Ready)
			known := map[string]bool{}
			for path := range r.onDisk() {
				known[path] = true
			}
			s.Close()
			at := &ready.Commit
			for range 12 {
				s := r.subscribe(SubscribeOptions{After: at})
				for range 1 + random.IntN(25) {
					r.operate(random)
				}
				at = r.follow(s, known)
				s.Close()
			}
			s = r.subscribe(SubscribeOptions{})
			s.settles(r)
			s.sees(r)
		})
	}
}

// follow applies the events of a subscription to the known paths until they are
// those of the disk, and returns the last transaction.
func (r *rig) follow(s *sub, known map[string]bool) *uint64 {
	r.t.Helper()
	want := r.fresh()
	e := s.expect(Ready)
	root, last := e.Root, e.Commit
	for root != want {
		if e = s.next(); e.Changes == nil {
			continue
		}
		require.Greater(r.t, e.Commit, last)
		root, last = e.Root, e.Commit
		for _, p := range e.Removed {
			require.True(r.t, known[p], "%q is removed and was not there", p)
			delete(known, p)
		}
		for _, p := range e.Added {
			require.False(r.t, known[p], "%q is added and was there", p)
			known[p] = true
		}
		for _, p := range slices.Concat(e.Modified, e.Ancestors) {
			require.True(r.t, known[p], "%q is modified and was not there", p)
		}
	}
	require.Equal(r.t, r.onDisk(), known)
	return &last
}

// onDisk returns the paths of a scan that knows nothing.
func (r *rig) onDisk() map[string]bool {
	r.t.Helper()
	all := map[string]bool{}
	r.scanned().Walk(func(path string, _ *tree.Node) bool {
		all[path] = true
		return true
	})
	return all
}

// operate does one thing to the directory.
func (r *rig) operate(random *rand.Rand) {
	r.t.Helper()
	pick := func() string {
		names := []string{"a", "b", "c", "d", "e"}
		path := names[random.IntN(5)]
		for range random.IntN(4) {
			path += "/" + names[random.IntN(5)]
		}
		return path
	}
	// What cannot be done, because of what another operation did, is left out.
	at, to := r.path(pick()), r.path(pick())
	text := strconv.AppendUint(nil, random.Uint64(), 36)
	switch random.IntN(12) {
	case 0, 1:
		_ = os.MkdirAll(at, 0o755)
	case 2, 3, 4:
		_ = os.MkdirAll(filepath.Dir(at), 0o755)
		_ = os.WriteFile(at, text, 0o644)
	case 5:
		_ = os.WriteFile(at, text, 0o644)
	case 6, 7, 8:
		_ = os.Rename(at, to)
	case 9:
		_ = os.RemoveAll(at)
	case 10:
		_ = os.Symlink(to, at)
	case 11:
		_ = os.WriteFile(filepath.Join(at, ".gitignore"), []byte([]string{"b\n", "c/\n", "*\n!/d\n", ""}[random.IntN(4)]), 0o644)
	}
}
