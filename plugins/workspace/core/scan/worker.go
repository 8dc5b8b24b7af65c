//go:build unix

package scan

import (
	"cmp"
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/plugins/workspace/core/git"
	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// fileGroup is the number of files of one directory that are hashed as one
// task, so that workers share a large directory.
const fileGroup = 64

// worker carries out tasks. Its buffers are reused.
type worker struct {
	*walker
	buffer  []byte
	listing []byte
	blob    *id.Blob
	entries []entry
}

// entry is a name that the system listed, with its type if it is known.
type entry struct {
	name string
	kind byte
}

const bufferSize = 256 << 10

func newWorker(w *walker) *worker {
	return &worker{walker: w, buffer: make([]byte, bufferSize), listing: make([]byte, 64<<10), blob: w.Scheme.NewBlob()}
}

func (w *worker) run() {
	for {
		t, ok := w.next()
		if !ok {
			return
		}
		if t.files != nil {
			w.hashAll(t)
		} else {
			w.directory(t.dir)
		}
		w.finished()
	}
}

// directory opens and reads a directory.
func (w *worker) directory(d *directory) {
	if d.up != nil && !w.open(d) {
		d.up.lose(d.node)
		w.done(d.up) // the directory is not a part any more
		return
	}
	defer d.handle.release()
	if w.Visit != nil {
		w.Visit(d.path)
	}
	if d.previous == nil {
		d.selected = nil
	}
	if d.selected.partial() && !d.selected.listed {
		w.partially(d)
	} else {
		w.whole(d)
	}
	w.done(d)
}

// open replaces the handle of the directory above by one of d itself. It
// returns false if d is not to be part of the tree.
func (w *worker) open(d *directory) bool {
	above := d.handle
	defer above.release()
	fd, err := -1, w.fault("open", d.path)
	if err == nil {
		fd, err = openAt(above.fd, d.node.Name, unix.O_RDONLY|unix.O_DIRECTORY)
	}
	switch {
	case err == nil:
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		w.unstable(d.path)
		return false
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EIO), errors.Is(err, unix.ESTALE):
		w.unreadable(d.path, err)
		return false
	case TooManyFiles("scan", shown(d.path), err) != nil:
		w.fail(TooManyFiles("scan", shown(d.path), err))
		return false
	default:
		w.fail(contract.Errorf("store/io", "open the directory: %w", err).WithOp("scan", shown(d.path)))
		return false
	}
	if w.OneFileSystem {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && uint64(st.Dev) != w.device {
			_ = unix.Close(fd)
			w.skipped.Add(1)
			return false
		}
	}
	d.handle = (&handle{fd: fd}).hold()
	return true
}

// whole reads all entries of a directory.
func (w *worker) whole(d *directory) {
	entries, err := w.list(d.handle.fd)
	if err != nil {
		w.unreadable(d.path, err)
		if d.up != nil {
			d.up.lose(d.node)
		}
		return
	}
	w.did(d.path, partEntries)
	if d.up != nil && w.fsys != nil && slices.ContainsFunc(entries, func(e entry) bool { return e.name == ".git" }) && w.nested(d) {
		return
	}
	w.readRuleFiles(d, entries)
	if d.selected.partial() && w.rulesChanged(d) {
		d.selected = nil
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	w.examine(d, entries, previousIn(d))
}

// previousIn returns a function that finds the nodes of the last scan for names
// in increasing order.
func previousIn(d *directory) func(name string) *tree.Node {
	if d.previous == nil {
		return func(string) *tree.Node { return nil }
	}
	rest := d.previous.Children
	return func(name string) *tree.Node {
		for len(rest) > 0 && rest[0].Name < name {
			rest = rest[1:]
		}
		if len(rest) > 0 && rest[0].Name == name {
			return rest[0]
		}
		return nil
	}
}

// partially examines only the selected entries of a directory and keeps the
// others as they were.
func (w *worker) partially(d *directory) {
	rules, selected := []entry{{name: attributesFile}}, []entry{}
	for _, name := range ignoreFileNames {
		rules = append(rules, entry{name: name})
	}
	w.readRuleFiles(d, rules)
	if w.rulesChanged(d) {
		d.selected, d.ignore = nil, d.ignore.Bare()
		w.whole(d)
		return
	}
	for name := range d.selected.names {
		selected = append(selected, entry{name: name})
		w.did(tree.Join(d.path, name), partEntry)
	}
	slices.SortFunc(selected, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	for _, n := range d.previous.Children {
		if _, again := d.selected.names[n.Name]; !again {
			d.node.Children = append(d.node.Children, n)
			w.count(d, n)
		}
	}
	w.examine(d, selected, previousIn(d))
	slices.SortFunc(d.node.Children, func(a, b *tree.Node) int { return cmp.Compare(a.Name, b.Name) })
}

// count adds a kept subtree to the number of nodes.
func (w *worker) count(d *directory, n *tree.Node) {
	w.nodes.Add(int64(n.Count() - 1))
	w.admit(d, n.Name)
}

// admit counts a node and fails the scan if a limit is exceeded.
func (w *worker) admit(d *directory, name string) bool {
	n := w.nodes.Add(1)
	limit, value := "", 0
	switch {
	case n >= int64(w.MaxNodes):
		limit, value = "nodes", w.MaxNodes
	case d.depth > maxDepth:
		limit, value = "depth", maxDepth
	case len(d.path)+1+len(name) > maxPath:
		limit, value = "path", maxPath
	default:
		return true
	}
	w.fail(contract.Errorf("limit/exceeded", "the limit of %d for %s is exceeded", value, limit).
		WithOp("scan", brief(shown(tree.Join(d.path, name)))).
		WithDetail("limit", edn.K(limit)).WithDetail("maximum", edn.Int(int64(value))).
		WithHint("exclude a directory above it: ferment workspace ignore add PATTERN"))
	return false
}

// examine adds the entries to a directory and queues what takes time.
func (w *worker) examine(d *directory, entries []entry, previous func(string) *tree.Node) {
	if w.Progress != nil {
		w.Progress(len(entries))
	}
	var dirs []task
	var files []*tree.Node
	if d.node.Children == nil {
		d.node.Children = make([]*tree.Node, 0, len(entries))
	}
	for _, e := range entries {
		if w.stopped.Load() {
			return
		}
		if e.name == ".git" || len(w.excluded) > 0 && w.excluded[tree.Join(d.path, e.name)] {
			continue
		}
		was := previous(e.name)
		var st unix.Stat_t
		known := false
		if e.kind == unix.DT_UNKNOWN || e.kind != unix.DT_DIR && was != nil && !w.Force {
			if known = w.stat(d, e.name, &st); !known {
				continue
			}
			e.kind = kindOf(&st)
		}
		if e.kind != unix.DT_DIR && e.kind != unix.DT_REG && e.kind != unix.DT_LNK {
			w.skipped.Add(1)
			continue
		}
		if p := d.ignore.Match(e.name, e.kind == unix.DT_DIR); p != nil && !p.Negative() {
			continue
		}
		kept := e.kind == unix.DT_DIR && was != nil && was.Mode == id.Dir && d.selected.keeps(e.name)
		if kept {
			w.count(d, was)
		} else if !w.admit(d, e.name) {
			return
		}
		if w.Scheme.Git() && git.RefusedName(e.name, e.kind == unix.DT_LNK) {
			w.inexact(tree.Join(d.path, e.name), git.ReasonName, "git refuses this name")
		}
		if kept {
			d.node.Children = append(d.node.Children, was)
			continue
		}
		if e.kind == unix.DT_DIR {
			n := &tree.Node{Name: e.name, Mode: id.Dir}
			d.node.Children = append(d.node.Children, n)
			dirs = append(dirs, task{dir: w.enter(d, n, was)})
			continue
		}
		if known && !w.Force && was != nil && unchanged(was, &st) {
			d.node.Children = append(d.node.Children, was)
			continue
		}
		n := &tree.Node{Name: e.name, Mode: id.File}
		if e.kind == unix.DT_LNK {
			n.Mode = id.Link
		}
		d.node.Children = append(d.node.Children, n)
		files = append(files, n)
	}
	// Some files are hashed here, the others by any worker.
	for len(files) > fileGroup {
		d.pending.Add(1)
		d.handle.hold()
		dirs = append(dirs, task{dir: d, files: files[len(files)-fileGroup:]})
		files = files[:len(files)-fileGroup]
	}
	if len(dirs) > 0 {
		w.push(dirs...)
	}
	for _, n := range files {
		w.hash(d, n)
	}
}

// enter returns the directory of an entry, with the handle of d until it is
// opened.
func (w *worker) enter(d *directory, n, was *tree.Node) *directory {
	d.pending.Add(1)
	in := &directory{
		up:       d,
		path:     tree.Join(d.path, n.Name),
		depth:    d.depth + 1,
		node:     n,
		selected: d.selected.child(n.Name),
		ignore:   d.ignore.Enter(n.Name),
		handle:   d.handle.hold(),
	}
	if was != nil && was.Mode == id.Dir {
		in.previous = was
	}
	in.pending.Store(1)
	return in
}

// nested makes a nested repository with a commit a leaf, and reports whether it
// did.
func (w *worker) nested(d *directory) bool {
	if w.Visit != nil { // the commit can change without a change of the directory
		w.Visit(tree.Join(d.path, ".git"))
	}
	commit, repository, err := git.Head(w.fsys, d.path)
	if err != nil {
		w.inexact(d.path, git.ReasonUnreadable, "the nested repository cannot be read: "+err.Error())
	}
	if err != nil || !repository {
		return false
	}
	content, err := w.Scheme.Commit(commit)
	if commit == nil || err != nil {
		w.inexact(d.path, git.ReasonNoCommit, "the HEAD of the nested repository does not resolve to a commit of this format")
		return false
	}
	d.node.Mode, d.node.Content = id.Repo, content
	d.node.ID = w.Scheme.Node(d.path, id.Repo, content)
	return true
}

// ignoreFileNames are in order of precedence.
var ignoreFileNames = []string{".fermentignore", ".gitignore"}

const attributesFile = ".gitattributes"
