package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/store"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Source describes the data directory that Create copies.
type Source struct {
	Dir    string // absolute
	Format int    // format version of the directory
	// Database is the path of the database file; empty if Store uses a PostgreSQL database.
	Database string
	Store    *store.Store // must be open
	Program  string       // version of the program
	Now      func() time.Time
	Copied   func() // if not nil, called after each copy of the database; for tests
}

// archiveSuffix is the suffix of the name of a backup that is a single file.
const archiveSuffix = ".tar"

// maxSnapshots is the maximum number of attempts to copy a database with all files that it names,
// while a host removes runs.
const maxSnapshots = 5

// Folder is the name of the folder for backups in a data directory. Create does not copy it.
const Folder = "backups"

// Create writes a backup to target: a folder, or an archive if the name ends in .tar. The target
// must not exist, except as an empty folder; otherwise the error is admin/conflict. Other errors
// that have no specific type are backup/failed. The backup appears at target only when it is
// complete.
func Create(ctx context.Context, src Source, target string) (*Manifest, error) {
	if err := vacant(target); err != nil {
		return nil, err
	}
	failed := func(err error) error {
		var typed *contract.Error
		if errors.As(err, &typed) && typed.Type != "runtime/internal" {
			return err
		}
		return contract.Errorf("backup/failed", "backup: write %s: %w", target, err)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return nil, failed(err)
	}
	work, remove, err := workFolder(target, forWriting)
	if err != nil {
		return nil, failed(err)
	}
	defer func() { _ = remove() }()
	c := copier{src: src, work: work, files: map[string]File{}}
	m, err := c.copy(ctx)
	if err != nil {
		return nil, failed(err)
	}
	result := work
	if strings.HasSuffix(target, archiveSuffix) {
		result = work + archiveSuffix
		defer func() { _ = os.Remove(result) }()
		if err := pack(ctx, work, result, m); err != nil {
			return nil, failed(err)
		}
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) { // it is an empty folder
		return nil, failed(err)
	}
	if err := os.Rename(result, target); err != nil {
		return nil, failed(err)
	}
	if err := store.SyncDir(filepath.Dir(target)); err != nil {
		return nil, failed(err)
	}
	return m, nil
}

// vacant rejects a target that exists, unless it is an empty folder.
func vacant(target string) error {
	info, err := os.Lstat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var entries []os.DirEntry
	if err == nil && info.IsDir() {
		entries, err = os.ReadDir(target)
	}
	switch {
	case err != nil:
		return contract.Errorf("backup/failed", "backup: write %s: %w", target, err)
	case !info.IsDir() || len(entries) > 0:
		return contract.Errorf("admin/conflict", "backup: %s exists and is not an empty directory", target).
			WithHint("name a path that does not exist")
	}
	return nil
}

// copier copies a data directory into the folder of a backup.
type copier struct {
	src   Source
	work  string
	files map[string]File // by path
}

func (c *copier) copy(ctx context.Context) (*Manifest, error) {
	m := &Manifest{Version: version, At: c.src.Now().UTC().Truncate(time.Millisecond), Program: c.src.Program, Format: c.src.Format}
	if err := os.Mkdir(filepath.Join(c.work, dataName), 0o700); err != nil {
		return nil, err
	}
	// Files are copied before the database, so that a calibration or secret key that the database
	// names is in the copy.
	if err := c.around(ctx); err != nil {
		return nil, err
	}
	position, err := c.database(ctx, m)
	if err != nil {
		return nil, err
	}
	m.Database.Schema = position.Schema
	m.Journal = Journal{position.Runs, position.Open, position.Suspended, position.Records, position.Last}
	for _, f := range c.files {
		m.Files = append(m.Files, f)
	}
	slices.SortFunc(m.Files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	out, err := os.OpenFile(filepath.Join(c.work, manifestName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err = m.write(out); err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return nil, err
	}
	return m, syncTree(c.work)
}

// database copies the database and the files that it names. A PostgreSQL database is not copied.
func (c *copier) database(ctx context.Context, m *Manifest) (p store.Position, err error) {
	if c.src.Database == "" {
		m.Database = Database{Driver: "postgres", Name: c.src.Store.Name(), Note: "dump it with the tools of its server"}
		return c.src.Store.Position(ctx)
	}
	name, err := filepath.Rel(c.src.Dir, c.src.Database)
	if err != nil {
		return p, err
	}
	m.Database = Database{Driver: "sqlite", Name: filepath.ToSlash(name)}
	for range maxSnapshots {
		var whole bool
		if p, whole, err = c.snapshot(ctx, name); err != nil || whole {
			return p, err
		}
	}
	return p, fmt.Errorf("runs were removed during each of %d attempts to copy the database", maxSnapshots)
}

// snapshot copies the database once. whole reports whether all files that the copy names were
// copied too; a run that is removed in the meantime deletes its files.
func (c *copier) snapshot(ctx context.Context, name string) (p store.Position, whole bool, err error) {
	to := filepath.Join(c.work, dataName, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return p, false, err
	}
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return p, false, err
	}
	if err := c.src.Store.Snapshot(ctx, to); err != nil {
		return p, false, err
	}
	if c.src.Copied != nil {
		c.src.Copied()
	}
	x, err := store.OpenSnapshot(ctx, to)
	if err != nil {
		return p, false, err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	if p, err = x.Position(ctx); err != nil {
		return p, false, err
	}
	named, err := x.Files(ctx)
	if err != nil {
		return p, false, err
	}
	if whole, err = c.blobs(ctx, filepath.Join(filepath.Dir(name), "blobs"), named); err != nil || !whole {
		return p, false, err
	}
	f, err := hashFile(to)
	f.Path = filepath.ToSlash(name)
	c.files[f.Path] = f
	return p, true, err
}

// blobs copies the named files of a folder, and deletes copies that are no longer named. It reports
// whether all files existed.
func (c *copier) blobs(ctx context.Context, folder string, named []string) (whole bool, err error) {
	if err := os.MkdirAll(filepath.Join(c.work, dataName, folder), 0o700); err != nil {
		return false, err
	}
	want := map[string]bool{}
	for _, name := range named {
		at := filepath.Join(folder, name)
		want[filepath.ToSlash(at)] = true
		if _, ok := c.files[filepath.ToSlash(at)]; ok {
			continue
		}
		if err := c.file(ctx, at, false); errors.Is(err, fs.ErrNotExist) {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
	below := filepath.ToSlash(folder) + "/"
	for at := range c.files {
		if strings.HasPrefix(at, below) && !want[at] {
			delete(c.files, at)
			if err := os.Remove(filepath.Join(c.work, dataName, filepath.FromSlash(at))); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// around copies the files of the data directory other than the database and its files.
func (c *copier) around(ctx context.Context) error {
	return store.WalkDir(c.src.Dir, func(at string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed in the meantime
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(c.src.Dir, at)
		switch {
		case err != nil || name == ".":
			return err
		case c.left(name):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !d.Type().IsRegular():
			return nil
		}
		info, err := d.Info()
		if err == nil {
			err = c.file(ctx, name, info.Mode()&0o100 != 0)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

// belongings are the files of a single process or host, which a backup does not include.
var belongings = []string{"LOCK", "HOST", "FORMAT", "run", "tmp", "work", "reserve", Folder, "plugins/*/log"}

// left reports whether a file is not copied: it is one of belongings, the database, or a file that
// the store keeps beside it.
func (c *copier) left(name string) bool {
	name = filepath.ToSlash(name)
	for _, pattern := range belongings {
		if ok, _ := path.Match(pattern, name); ok {
			return true
		}
	}
	if c.src.Database == "" {
		return false
	}
	database, err := filepath.Rel(c.src.Dir, c.src.Database)
	if err != nil {
		return false
	}
	dir := path.Dir(filepath.ToSlash(database))
	base := filepath.ToSlash(database)
	return name == path.Join(dir, "blobs") || name == path.Join(dir, "reserve") ||
		name == path.Join(dir, "JOURNAL") || name == base ||
		strings.HasPrefix(name, base+"-") || strings.HasPrefix(name, base+".")
}

// file copies a file of the data directory. runs is set if it is executable.
func (c *copier) file(ctx context.Context, name string, runs bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	in, err := os.Open(filepath.Join(c.src.Dir, name))
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	to := filepath.Join(c.work, dataName, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, modeOf(runs))
	if err != nil {
		return err
	}
	f, err := copied(out, in)
	if err == nil {
		err = out.Sync()
	}
	f.Path, f.Runs = filepath.ToSlash(name), runs
	c.files[f.Path] = f
	return errors.Join(err, out.Close())
}

func modeOf(runs bool) fs.FileMode {
	if runs {
		return 0o700
	}
	return 0o600
}

// copied copies a stream and returns its size and hash.
func copied(to io.Writer, from io.Reader) (f File, err error) {
	sum := newHash()
	f.Bytes, err = io.Copy(io.MultiWriter(to, sum), from)
	f.Hash = sumOf(sum)
	return f, err
}

func hashFile(name string) (File, error) {
	in, err := os.Open(name)
	if err != nil {
		return File{}, err
	}
	defer func() { _ = in.Close() }()
	return copied(io.Discard, in)
}

// syncTree syncs all folders of a tree, so that the names in them are durable.
func syncTree(dir string) error {
	return store.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return store.SyncDir(at)
	})
}
