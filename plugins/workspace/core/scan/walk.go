//go:build unix

package scan

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/plugins/workspace/core/git"
	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/ignore"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Run scans a workspace. If it fails, the result is nil. The package comment lists the errors.
func Run(ctx context.Context, o Options) (*Result, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxNodes == 0 {
		o.MaxNodes = DefaultMaxNodes
	}
	w := &walker{
		Options:  o,
		settled:  o.Now().Add(-racyWindow).UnixNano(),
		excluded: map[string]bool{},
		result:   &Result{Tree: &tree.Tree{Scheme: o.Scheme}, Complete: true, ruleFiles: map[string]ruleFile{}},
	}
	w.wake.L = &w.mu
	for _, p := range o.Exclude {
		w.excluded[p] = true
	}
	selected, err := newScope(o.Paths, o.Dirs)
	if err != nil {
		return nil, err
	}
	if err := w.start(selected); err != nil {
		return nil, err
	}
	defer w.close()
	defer context.AfterFunc(ctx, func() { w.fail(context.Cause(ctx)) })()
	var done sync.WaitGroup
	for range o.workers() {
		done.Go(func() { newWorker(w).run() })
	}
	done.Wait()
	w.mu.Lock()
	err = w.err
	w.mu.Unlock()
	if err != nil {
		return nil, contract.AsError(err)
	}
	return w.finish()
}

// walker is the state of one scan, shared by its workers.
type walker struct {
	Options
	settled  int64 // times before it are old enough to be trusted
	excluded map[string]bool
	fsys     *os.Root // for the files of nested repositories; nil if they are not needed
	device   uint64   // of the root
	rules    *ignore.Rules

	stopped atomic.Bool
	nodes   atomic.Int64
	skipped atomic.Int64
	hashed  atomic.Int64
	opened  atomic.Int64

	mu     sync.Mutex
	wake   sync.Cond
	tasks  []task // a stack: depth first keeps few directories open
	active int
	err    error
	result *Result
	// examined are the paths that a partial scan decided about, nil in a full
	// one: directories whose entries or rules were read, and entries.
	examined map[examined]bool
}

// examined names a part of a path that a partial scan examined.
type examined struct {
	path string
	part byte
}

const (
	partRules   = iota // read the rule files of the directory
	partEntries        // listed the directory
	partEntry          // looked at this entry of a directory that it did not list
)

// task is the work of one worker at a time: to read a directory, or to hash some
// files of one.
type task struct {
	dir   *directory
	files []*tree.Node // to hash; nil to read the directory
}

// handle is an open directory that several tasks use.
type handle struct {
	fd   int
	uses atomic.Int32
}

func (h *handle) hold() *handle {
	h.uses.Add(1)
	return h
}

// Inode returns the inode of a file, 0 if it is not known.
func Inode(info os.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}

func (h *handle) release() {
	if h.uses.Add(-1) == 0 {
		_ = unix.Close(h.fd)
	}
}

// unreadable is the error of a root that cannot be opened.
func unreadable(op, root string, err error) *contract.Error {
	if e := TooManyFiles(op, root, err); e != nil {
		return e
	}
	return contract.Errorf("workspace/not-found", "the directory cannot be opened: %w", err).WithOp(op, root).
		WithHint("check that the directory exists and that this user may read it")
}

// start opens the root and queues it.
func (w *walker) start(selected *scope) error {
	fd, err := unix.Open(w.Root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return unreadable("scan", w.Root, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return unreadable("scan", w.Root, err)
	}
	w.device, w.result.Inode = uint64(st.Dev), st.Ino
	if w.Boundaries || w.Scheme.Git() {
		if w.fsys, err = os.OpenRoot(w.Root); err != nil {
			_ = unix.Close(fd)
			return unreadable("scan", w.Root, err)
		}
	}
	w.rules = &ignore.Rules{Above: []*ignore.List{w.Patterns, w.Workspace}}
	if w.Scheme.Git() {
		w.readGit()
	}
	w.result.global = w.globalOptions()
	if w.Previous == nil || w.Previous.ruleFiles == nil || w.Previous.global != w.result.global {
		selected = nil // nothing is known of the rest
	}
	if selected.partial() {
		w.examined = map[examined]bool{}
	}
	root := &directory{node: &tree.Node{Mode: id.Dir}, selected: selected, ignore: w.rules.Root(), handle: &handle{fd: fd}}
	if w.Previous != nil {
		root.previous = w.Previous.Tree.Root
	}
	root.handle.hold()
	root.pending.Store(1)
	w.result.Tree.Root = root.node
	w.tasks = []task{{dir: root}}
	return nil
}

// globalOptions returns a text that identifies the options and rules which apply to every entry of
// the tree.
func (w *walker) globalOptions() string {
	var b strings.Builder
	fmt.Fprintf(&b, "boundaries %t, one file system %t, exclude %q\n", w.Boundaries, w.OneFileSystem, w.Exclude)
	for _, lists := range [][]*ignore.List{w.rules.Above, w.rules.Below} {
		for _, l := range lists {
			fmt.Fprintf(&b, "list %q\n", l.Texts())
		}
	}
	return b.String()
}

// readGit adds what git's configuration says about ids and ignored files.
func (w *walker) readGit() {
	s := git.Read(w.Root, w.Git)
	for _, source := range s.Excludes {
		w.rules.Below = append(w.rules.Below, ignore.Parse(source.Name, "", source.Text))
	}
	w.result.Inexact = s.Inexact
	for _, l := range w.rules.Above {
		if l.Len() > 0 {
			w.result.Inexact = append(w.result.Inexact, git.Inexact{Reason: git.ReasonIgnore, Detail: "patterns of the workspace or the request"})
			return
		}
	}
}

func (w *walker) close() {
	if w.fsys != nil {
		_ = w.fsys.Close()
	}
	for _, t := range w.tasks { // left over after a failure
		t.dir.handle.release()
	}
}

// fail ends the scan with an error. The first one is kept.
func (w *walker) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	w.stopped.Store(true)
	w.wake.Broadcast()
}

// push queues tasks. Each holds the handle of its directory, or for a directory
// that is not open yet that of the one above.
func (w *walker) push(tasks ...task) {
	w.mu.Lock()
	w.tasks = append(w.tasks, tasks...)
	w.mu.Unlock()
	if len(tasks) == 1 {
		w.wake.Signal()
	} else {
		w.wake.Broadcast()
	}
}

// next returns a task, or false when none is left.
func (w *walker) next() (task, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.tasks) == 0 && w.active > 0 && w.err == nil {
		w.wake.Wait()
	}
	if len(w.tasks) == 0 || w.err != nil {
		return task{}, false
	}
	t := w.tasks[len(w.tasks)-1]
	w.tasks = w.tasks[:len(w.tasks)-1]
	w.active++
	return t, true
}

func (w *walker) finished() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.active--; w.active == 0 && len(w.tasks) == 0 {
		w.wake.Broadcast()
	}
}

// unreadable records an entry that cannot be read. Without a file descriptor, the scan fails: that
// says nothing about the entry.
func (w *walker) unreadable(path string, err error) {
	if e := TooManyFiles("scan", shown(path), err); e != nil {
		w.fail(e)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.result.Unreadable = append(w.result.Unreadable, path)
	w.result.Complete = false
}

func (w *walker) unstable(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.result.Unstable = append(w.result.Unstable, path)
}

func (w *walker) inexact(path string, reason git.Reason, detail string) {
	if !w.Scheme.Git() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.result.Inexact = append(w.result.Inexact, git.Inexact{Path: path, Reason: reason, Detail: detail})
}

// finish completes the result.
func (w *walker) finish() (*Result, error) {
	r := w.result
	slices.Sort(r.Unreadable)
	slices.Sort(r.Unstable)
	r.Skipped, r.BytesHashed, r.Opened = int(w.skipped.Load()), w.hashed.Load(), int(w.opened.Load())
	if len(r.Unreadable) > 0 && !w.SkipUnreadable {
		var listed []edn.Value
		for _, p := range r.Unreadable[:min(len(r.Unreadable), maxListed)] {
			listed = append(listed, pathValue(p))
		}
		return nil, contract.Errorf("scan/unreadable", "%s cannot be read, the first is %s", entries(len(r.Unreadable)),
			shown(r.Unreadable[0])).
			WithHint("make them readable, or leave them out with :on-unreadable :skip").
			WithOp("scan", w.Root).WithDetail("paths", edn.Vector(listed...)).WithDetail("count", edn.Int(int64(len(r.Unreadable))))
	}
	if w.Previous != nil {
		if old := w.Previous.Tree.Root; old.ID == r.Tree.Root.ID && sameSlice(old.Children, r.Tree.Root.Children) {
			r.Tree = w.Previous.Tree
		}
		if w.examined != nil {
			w.keepUnread()
		}
	}
	for path, f := range r.ruleFiles {
		if f.inexact != "" {
			w.inexact(path, f.reason, f.inexact)
		}
	}
	slices.SortFunc(r.Inexact, func(a, b git.Inexact) int {
		return strings.Compare(a.Path+"\x00"+string(a.Reason)+a.Detail, b.Path+"\x00"+string(b.Reason)+b.Detail)
	})
	r.IgnoreDigest = w.digest()
	return r, nil
}

// keepUnread adds what the last scan found in directories that a partial scan
// did not read.
func (w *walker) keepUnread() {
	did := func(path string, part byte) bool { return w.examined[examined{path, part}] }
	for path, f := range w.Previous.ruleFiles {
		if !did(tree.Parent(path), partRules) && w.result.Tree.Lookup(tree.Parent(path)) != nil {
			w.result.ruleFiles[path] = f
		}
	}
	for _, x := range w.Previous.Inexact {
		again := true // it comes from a rule file, or from the configuration
		switch x.Reason {
		case git.ReasonName:
			again = did(tree.Parent(x.Path), partEntries) || did(x.Path, partEntry)
		case git.ReasonNoCommit:
			again = did(x.Path, partEntries)
		}
		if !again && w.result.Tree.Lookup(x.Path) != nil {
			w.result.Inexact = append(w.result.Inexact, x)
		}
	}
}

// did records what a partial scan examines.
func (w *walker) did(path string, part byte) {
	if w.examined == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.examined[examined{path, part}] = true
}

// digest identifies the rules: every ignore file with its content, and the
// lists of the whole workspace.
func (w *walker) digest() id.ID {
	var lines []string
	for path, f := range w.result.ruleFiles {
		if !strings.HasSuffix(path, attributesFile) {
			lines = append(lines, fmt.Sprintf("file %q %s\n", path, f.content))
		}
	}
	slices.Sort(lines)
	for _, lists := range [][]*ignore.List{w.rules.Above, w.rules.Below} {
		for _, l := range lists {
			lines = append(lines, fmt.Sprintf("list %q\n", l.Texts()))
		}
	}
	return w.Scheme.Params(strings.Join(lines, ""))
}
