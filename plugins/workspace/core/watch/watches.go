package watch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
)

// watches are the watches that the operating system holds on the directories of a tree.
type watches struct {
	root string
	max  int // most watches; 0 means as many as the system allows
	now  func() time.Time
	into *queue

	readers sync.WaitGroup

	mu     sync.Mutex
	source *fsnotify.Watcher // nil if the system has none left
	dirs   map[string]bool   // watched
	polled map[string]bool   // not watched, because a limit is reached
}

// reset drops all watches and begins anew: after lost events, the name under
// which a directory is watched may not be its own.
func (w *watches) reset() {
	w.close()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dirs, w.polled = map[string]bool{}, map[string]bool{}
	source, err := fsnotify.NewWatcher()
	if err != nil {
		return // add polls what it cannot watch
	}
	w.source = source
	w.readers.Go(func() { w.read(source) })
}

// close ends all watches and waits for their events.
func (w *watches) close() {
	w.mu.Lock()
	source := w.source
	w.source = nil
	w.mu.Unlock()
	if source != nil {
		_ = source.Close()
	}
	w.readers.Wait()
}

// add watches a directory, or polls it if that is not possible.
func (w *watches) add(dir string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := error(syscall.ENOSPC)
	if w.source != nil && (w.dirs[dir] || w.max == 0 || len(w.dirs) < w.max) {
		err = w.source.Add(filepath.Join(w.root, dir))
	}
	delete(w.dirs, dir)
	delete(w.polled, dir)
	switch {
	case err == nil:
		w.dirs[dir] = true
	case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission), errors.Is(err, syscall.ENOTDIR):
		// The directory above has an event for it, or the scan fails.
	default:
		w.polled[dir] = true
	}
}

// drop ends the watches of paths and of all below them.
func (w *watches) drop(paths map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := false
	for path := range paths {
		known = known || w.dirs[path] || w.polled[path]
	}
	if !known {
		return
	}
	for dir := range w.dirs {
		if within(dir, paths) {
			delete(w.dirs, dir)
			if w.source != nil {
				_ = w.source.Remove(filepath.Join(w.root, dir)) // it can be gone already
			}
		}
	}
	for dir := range w.polled {
		if within(dir, paths) {
			delete(w.polled, dir)
		}
	}
}

// within reports whether a path is one of the others or below one.
func within(path string, others map[string]bool) bool {
	for {
		if others[path] {
			return true
		}
		if path == "" {
			return false
		}
		path = tree.Parent(path)
	}
}

// counts returns the numbers of watched and of polled directories.
func (w *watches) counts() (watched, polled int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.dirs), len(w.polled)
}

// poll returns the directories that are not watched as a batch.
func (w *watches) poll() batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := batch{dirs: map[string]bool{}}
	for dir := range w.polled {
		b.dirs[dir] = true
	}
	return b
}

// read marks what the system reports until the source is closed.
func (w *watches) read(source *fsnotify.Watcher) {
	for {
		select {
		case e, ok := <-source.Events:
			if !ok {
				return
			}
			w.into.mark(w.now(), w.dirty(e))
		case err, ok := <-source.Errors:
			if !ok {
				return
			}
			if err != nil {
				w.lost()
			}
		}
	}
}

// lost marks everything, because the system lost events.
func (w *watches) lost() { w.into.mark(w.now(), batch{overflow: true}) }

// dirty returns the paths that an event makes dirty.
func (w *watches) dirty(e fsnotify.Event) batch {
	path, err := filepath.Rel(w.root, e.Name)
	if err != nil || e.Name == "" {
		return batch{}
	}
	path = filepath.ToSlash(path)
	if path == "." { // also if the root is gone, which the scan finds
		return batch{dirs: map[string]bool{"": true}}
	}
	if dir, inside, ok := strings.Cut("/"+path, "/.git/"); ok && inside != "" {
		return batch{trees: map[string]bool{strings.TrimPrefix(dir, "/"): true}} // the commit of a nested repository
	}
	b := batch{dirs: map[string]bool{tree.Parent(path): true}}
	if e.Has(fsnotify.Create) || e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename) {
		b.gone = map[string]bool{path: true}
	}
	if e.Has(fsnotify.Create) || e.Has(fsnotify.Chmod) {
		info, err := os.Lstat(filepath.Join(w.root, path))
		if err == nil && info.IsDir() && e.Has(fsnotify.Create) {
			b.trees = map[string]bool{path: true}
		} else if err == nil && info.IsDir() {
			b.dirs[path] = true
		}
	}
	return b
}

// dropRemoved ends the watches of directories that are no longer in the tree,
// also because they are ignored now.
func (w *watches) dropRemoved(c *tree.Changes) {
	gone := map[string]bool{}
	for _, x := range c.Removed {
		gone[x.Path] = true
	}
	w.drop(gone)
}
