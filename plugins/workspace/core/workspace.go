package core

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fermenthq/ferment/plugins/workspace/core/git"
	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/ignore"
	"github.com/fermenthq/ferment/plugins/workspace/core/scan"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
)

// GitAuto is the name of the scheme that follows the repository at the root.
const GitAuto = "git-auto"

// Options configure a workspace.
type Options struct {
	// Allowed are the directories that may be scanned, with all below them.
	Allowed []string
	// Scheme is the name of the scheme of a new store. An existing store keeps
	// its own. Empty means b3.
	Scheme string
	// DataDir is the data directory of the store; empty means one inside the
	// workspace.
	DataDir string
	// NewID returns the id of a new workspace.
	NewID func() string
	Git   git.Environment
	Store store.Options
}

// Workspace is a directory with its store.
type Workspace struct {
	Root  string
	Store *store.Store

	git     git.Environment
	exclude []string
	dir     os.FileInfo // of Root
	outside bool        // the store is not in the directory
	// scanned is the inode of the directory that the last scan read, 0 if it is not known.
	scanned atomic.Uint64

	mu    sync.Mutex // held during a scan
	known *scan.Result
	// unsaved is the number of files that were read and are not in the stat cache.
	unsaved int
}

// maxUnsaved is the number of files that a scan must have read for the stat cache to be written.
// After a process was killed, the next one reads at most this many files again.
const maxUnsaved = 1000

// Open opens the workspace of a directory. It creates the store if there is
// none.
func Open(ctx context.Context, root string, o Options) (*Workspace, error) {
	w, data, err := locate(root, o)
	if err != nil {
		return nil, err
	}
	w.Store, err = store.Open(ctx, data, o.Store)
	if errors.Is(err, contract.OfType("workspace/not-found")) {
		if err = create(data, w.Root, o); err == nil {
			w.Store, err = store.Open(ctx, data, o.Store)
		}
	}
	if err != nil {
		return nil, err
	}
	if w.known = w.Store.LoadCache(); w.known != nil {
		w.scanned.Store(w.known.Inode)
	}
	return w, nil
}

// Follow opens the workspace of a directory that another process writes, for reading
// only: see store.Follow.
func Follow(ctx context.Context, root string, o Options) (*Workspace, error) {
	w, data, err := locate(root, o)
	if err == nil {
		w.Store, err = store.Follow(ctx, data, o.Store)
	}
	return w, err
}

// locate returns a workspace without its store, and the data directory of the store.
func locate(root string, o Options) (*Workspace, string, error) {
	abs, err := scan.Resolve(root, o.Allowed)
	if err != nil {
		return nil, "", err
	}
	data := o.DataDir
	if data == "" {
		data = store.DataDir(abs)
	}
	dir, err := os.Stat(abs)
	if err != nil {
		return nil, "", contract.Errorf("store/io", "%w", scan.WithoutPath(err)).WithOp("workspace", abs)
	}
	w := &Workspace{Root: abs, git: o.Git, exclude: excluded(abs, data), dir: dir, outside: data != store.DataDir(abs)}
	return w, data, nil
}

// OtherDirectory reports whether Root is another directory than the one that the last scan
// read, as far as that is known. A store in the directory moves with it, so it has none.
func (w *Workspace) OtherDirectory() bool {
	was := w.scanned.Load()
	return w.outside && was != 0 && was != scan.Inode(w.dir)
}

// InPlace reports whether the directory at Root and its store are those that were opened.
// If not, the workspace must be closed and opened again. It costs four calls of stat.
func (w *Workspace) InPlace() bool { return store.SameFile(w.Root, w.dir) && w.Store.InPlace() }

// create makes a store with the configured scheme.
func create(data, root string, o Options) error {
	name := SchemeOf(o.Scheme, root, o.Git)
	if _, err := id.ParseScheme(name); err != nil {
		return err
	}
	return store.Create(data, store.Identity{ID: o.NewID(), Scheme: name})
}

// SchemeOf returns the scheme that name selects for a directory: git-auto
// selects that of its repository, and the empty name selects b3. Other names are
// returned unchanged.
func SchemeOf(name, root string, env git.Environment) string {
	switch name {
	case "":
		return id.B3.String()
	case GitAuto:
		return "git-" + git.Read(root, env).Format
	}
	return name
}

// excluded returns the paths that are not part of the tree because of the store:
// a tree must have the same ids with and without one.
func excluded(root, data string) []string {
	if data == store.DataDir(root) {
		return []string{store.DataParent}
	}
	rel, err := filepath.Rel(root, data)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return nil
	}
	return []string{filepath.ToSlash(rel)}
}

// Close saves the stat cache and seals the store. If another directory has taken the place
// of the store, nothing is written.
func (w *Workspace) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.Store.InPlace() {
		return w.Store.Close()
	}
	return errors.Join(w.save(1), w.Store.Close())
}

// save writes the stat cache if it lacks as many files. The cache is derived:
// without it the next process reads all files.
func (w *Workspace) save(least int) error {
	if w.known == nil || w.unsaved < least {
		return nil
	}
	w.unsaved = 0
	return w.Store.SaveCache(w.known)
}

// Scanned is the result of a scan.
type Scanned struct {
	// Seq is the transaction whose tree this is; it is a new one if anything changed.
	Seq     uint64
	Changes *tree.Changes
	Result  *scan.Result
}

// Scan reads the directory and commits what changed. Root, Scheme, Exclude, Git,
// Workspace and Previous of the options are set by the workspace.
func (w *Workspace) Scan(ctx context.Context, o scan.Options) (*Scanned, error) {
	return w.ScanAs(ctx, "scan", o)
}

// Preview scans without committing. The result has the changes that a scan
// would commit.
func (w *Workspace) Preview(ctx context.Context, o scan.Options) (*Scanned, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, err := w.read(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &Scanned{Result: r}
	err = w.Store.View(ctx, store.Latest, func(v *store.Snapshot) error {
		t, err := v.Tree(ctx)
		s.Seq, s.Changes = v.Seq(), tree.Diff(t, r.Tree)
		return err
	})
	return s, err
}

// PreviewNew is Preview for a directory without a store: everything in it is new. It
// creates no store.
func PreviewNew(ctx context.Context, root string, o Options, s scan.Options) (*Scanned, error) {
	w, _, err := locate(root, o)
	if err != nil {
		return nil, err
	}
	s.Root, s.Exclude, s.Git = w.Root, w.exclude, w.git
	s.Workspace = ignore.Parse(store.IgnoreSource, "", nil)
	if s.Scheme, err = id.ParseScheme(SchemeOf(o.Scheme, w.Root, o.Git)); err != nil {
		return nil, err
	}
	r, err := scan.Run(ctx, s)
	if err != nil {
		return nil, err
	}
	return &Scanned{Result: r, Changes: tree.Diff(nil, r.Tree)}, nil
}

// read scans the directory and commits nothing.
func (w *Workspace) read(ctx context.Context, o scan.Options) (*scan.Result, error) {
	if err := w.prepare(ctx, &o); err != nil {
		return nil, err
	}
	o.Previous = w.known
	return scan.Run(ctx, o)
}

// prepare sets the options that are those of the workspace, except Previous.
func (w *Workspace) prepare(ctx context.Context, o *scan.Options) error {
	text, err := w.ignoreList(ctx)
	o.Root, o.Scheme, o.Exclude, o.Git = w.Root, w.Store.Scheme, w.exclude, w.git
	o.Workspace = ignore.Parse(store.IgnoreSource, "", text)
	return err
}

// scanned returns the description of a scan for the store. A partial scan does not make an
// incomplete tree complete.
func scanned(before store.Scanned, r *scan.Result, o scan.Options) store.Scanned {
	part := len(o.Paths)+len(o.Dirs) > 0
	return store.Scanned{Rules: r.IgnoreDigest, Incomplete: !r.Complete || part && before.Incomplete}
}

// ScanAs is Scan with the actor under which the transaction is recorded.
func (w *Workspace) ScanAs(ctx context.Context, actor string, o scan.Options) (*Scanned, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, err := w.read(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &Scanned{Result: r}
	s.Seq, err = w.Store.Update(ctx, actor, func(tx *store.Tx) (err error) {
		before, err := tx.Scanned()
		if err != nil {
			return err
		}
		now := scanned(before, r, o)
		if s.Changes, err = tx.PutTree(r.Tree); err != nil || s.Changes.Empty() && before.Incomplete == now.Incomplete {
			return err
		}
		return tx.SetScanned(now)
	})
	if err != nil {
		return nil, err
	}
	other := w.known == nil || w.scanned.Load() != r.Inode // the cache is of another directory
	w.known = r
	w.scanned.Store(r.Inode)
	if w.unsaved += r.Opened; other {
		return s, w.save(0)
	}
	return s, w.save(maxUnsaved)
}
