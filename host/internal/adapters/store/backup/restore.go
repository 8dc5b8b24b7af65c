package backup

import (
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

	"github.com/fermenthq/ferment/host/internal/adapters/store"
)

// Backup is a backup that is open for reading. Create it with Open, and close it.
type Backup struct {
	Manifest *Manifest
	dir      string
	remove   func() error // deletes the folder of an unpacked archive; nil: not an archive
}

// Open opens the backup at a path, a folder or an archive, and reads its manifest. An archive is
// unpacked to a temporary folder beside it, which Close deletes. The error for a path that is not a
// backup is backup/invalid.
func Open(ctx context.Context, at string) (_ *Backup, err error) {
	info, err := os.Stat(at)
	if err != nil {
		return nil, invalid("open %s: %w", at, err)
	}
	b := &Backup{dir: at}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if !info.IsDir() {
		if b.dir, b.remove, err = workFolder(at, forReading); err != nil {
			return nil, fmt.Errorf("unpack %s: %w", at, err)
		}
		if err := unpack(ctx, at, b.dir); err != nil {
			return nil, err
		}
	}
	f, err := os.Open(filepath.Join(b.dir, manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, invalid("%s is not a backup: expected a file %s in it, found none", at, manifestName)
	}
	if err != nil {
		return nil, invalid("read %s: %w", at, err)
	}
	defer func() { _ = f.Close() }()
	b.Manifest, err = readManifest(f, filepath.Join(at, manifestName))
	return b, err
}

// Close removes the temporary folder of an unpacked archive. For a backup that is a folder it does
// nothing.
func (b *Backup) Close() error {
	if b.remove == nil {
		return nil
	}
	return b.remove()
}

// Finding is one difference between a backup and its manifest, or damage to the database in it
// (Path is then empty). Path is relative to the backup, with slashes.
type Finding struct{ Path, What string }

// Verify compares every file with its hash in the manifest; a file that the manifest does not
// have is a difference, wherever in the backup it is. If there is no difference and the
// backup contains an SQLite database, it also checks every page, record, value and session of it.
// The differences are returned as findings; the error means that a file could not be read. It
// changes nothing.
func (b *Backup) Verify(ctx context.Context) (found []Finding, err error) {
	known := map[string]bool{manifestName: true}
	for _, f := range b.Manifest.Files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		name := path.Join(dataName, f.Path)
		known[name] = true
		what, err := b.compare(f)
		if err != nil {
			return nil, err
		}
		if what != "" {
			found = append(found, Finding{name, what})
		}
	}
	err = fs.WalkDir(os.DirFS(b.dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !known[name] {
			found = append(found, Finding{name, "it is not in the manifest"})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if b.Manifest.Database.Driver != "sqlite" || len(found) > 0 {
		return found, nil
	}
	return b.verifyDatabase(ctx)
}

// Within reports whether all findings are damage within the database. Then the backup is unchanged,
// and the database was damaged when the backup was made. Without findings it is true.
func Within(found []Finding) bool {
	return !slices.ContainsFunc(found, func(f Finding) bool { return f.Path != "" })
}

// compare returns how a file differs from the manifest; empty if it does not.
func (b *Backup) compare(f File) (what string, err error) {
	name := filepath.Join(b.dir, dataName, filepath.FromSlash(f.Path))
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "it is missing", nil
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "it is not a regular file", nil
	case info.Size() != f.Bytes:
		return fmt.Sprintf("it has %d bytes instead of %d", info.Size(), f.Bytes), nil
	}
	got, err := hashFile(name)
	if err == nil && got.Hash != f.Hash {
		what = "it does not have its hash"
	}
	return what, err
}

func (b *Backup) verifyDatabase(ctx context.Context) (found []Finding, err error) {
	x, err := store.OpenSnapshot(ctx, filepath.Join(b.dir, dataName, filepath.FromSlash(b.Manifest.Database.Name)))
	var damage *store.Damage
	if errors.As(err, &damage) {
		return []Finding{{What: damage.Error()}}, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	all, err := x.Verify(ctx)
	for _, d := range all {
		found = append(found, Finding{What: d.Error()})
	}
	if err != nil || len(found) > 0 {
		return found, err
	}
	p, err := x.Position(ctx)
	if got := (Journal{p.Runs, p.Open, p.Suspended, p.Records, p.Last}); err == nil && got != b.Manifest.Journal {
		found = append(found, Finding{path.Join(dataName, b.Manifest.Database.Name), "the journal does not end where the manifest says"})
	}
	return found, err
}

// Restore copies the files of the backup into the data directory dir. database is the path of the
// database file of its journal; empty: the journal is in PostgreSQL. A file that exists already is
// an error. Each file is compared with its hash during the copy, and is durable when Restore
// returns nil. After an error, files that were already copied remain.
func (b *Backup) Restore(ctx context.Context, dir, database string) error {
	from, err := os.OpenRoot(filepath.Join(b.dir, dataName))
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	to, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }()
	for _, f := range b.Manifest.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		name, err := b.place(f.Path, dir, database)
		if err == nil {
			err = restoreFile(from, to, f, name)
		}
		if err != nil {
			return err
		}
	}
	return syncTree(dir)
}

// place returns the name of a file in a data directory whose database may have another path than
// the one in the backup.
func (b *Backup) place(name, dir, database string) (string, error) {
	if b.Manifest.Database.Driver != "sqlite" || database == "" {
		return filepath.FromSlash(name), nil
	}
	there, err := filepath.Rel(dir, database)
	if err != nil {
		return "", err
	}
	was := b.Manifest.Database.Name
	blobs := path.Join(path.Dir(was), "blobs")
	switch rest, ok := strings.CutPrefix(name, blobs+"/"); {
	case name == was:
		return there, nil
	case ok:
		return filepath.Join(filepath.Dir(there), "blobs", filepath.FromSlash(rest)), nil
	}
	return filepath.FromSlash(name), nil
}

func restoreFile(from, to *os.Root, f File, name string) (err error) {
	in, err := from.Open(filepath.FromSlash(f.Path))
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	if err := to.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	out, err := to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, modeOf(f.Runs))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	got, err := copied(out, io.LimitReader(in, f.Bytes+1))
	if err != nil {
		return err
	}
	if got.Hash != f.Hash {
		return invalid("%s does not have its hash", f.Path)
	}
	return out.Sync()
}
