package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Snapshot writes a consistent copy of the database to a new file, while the store is in use. Large
// values are files beside the database and are not copied: [SnapshotFile.Files] lists those that
// the copy needs. For a PostgreSQL database the error is db/not-configured.
func (s *Store) Snapshot(ctx context.Context, path string) error {
	db, ok := s.db.(*sqliteDB)
	if !ok {
		return contract.Errorf("db/not-configured", "copy %s: the host cannot copy the files of a database server", s.db.name()).
			WithHint("dump it with the tools of the server, such as pg_dump")
	}
	err := db.copyTo(ctx, path)
	if lost := s.CheckFiles(); lost != nil { // the copy may be one of another file
		_ = os.Remove(path)
		return lost
	}
	if err != nil {
		_ = os.Remove(path)
		return fmt.Errorf("store: copy %s to %s: %w", db.path, path, damaged(err))
	}
	return nil
}

// copyTo writes a durable copy to a new file. It reads on its own connection, so the writer
// continues in the meantime.
func (db *sqliteDB) copyTo(ctx context.Context, path string) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	source, err := sql.Open("sqlite", sqliteSource(db.path, url.Values{"mode": {"ro"}}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	if _, err := source.ExecContext(ctx, "VACUUM INTO ?", path); err != nil {
		return err
	}
	return f.Sync()
}

// SnapshotFile is the file of a Snapshot, opened for reading together with the folder blobs beside
// it. It writes to neither.
type SnapshotFile struct{ s *Store }

// OpenSnapshot opens the file of a snapshot for reading. The errors are those of Open. The caller
// must close the result.
func OpenSnapshot(ctx context.Context, path string) (*SnapshotFile, error) {
	files := &blobs{dir: filepath.Join(filepath.Dir(path), "blobs")}
	s, err := open(ctx, Options{Path: path, asIs: true, still: true}, files)
	if err != nil {
		return nil, err
	}
	return &SnapshotFile{s}, nil
}

// Close closes the file.
func (x *SnapshotFile) Close() error { return x.s.closeFiles() }

// Files returns the names, relative to the folder blobs, of the files that the snapshot needs.
func (x *SnapshotFile) Files(ctx context.Context) (out []string, err error) {
	var h sum
	err = x.s.read.all(ctx, "all_files", nil, []any{&h}, func() error {
		name, err := filepath.Rel(x.s.blobs.dir, x.s.blobs.path(h))
		out = append(out, name)
		return err
	})
	return out, err
}

// Position returns the counts of the journal in the snapshot.
func (x *SnapshotFile) Position(ctx context.Context) (Position, error) { return x.s.Position(ctx) }

// Verify checks the pages of the file and then, if they have no damage, every run and session and
// the host stream. It returns all damage.
func (x *SnapshotFile) Verify(ctx context.Context) ([]*Damage, error) {
	found, err := lite(x.s).check(ctx)
	if err != nil || found != "" {
		return []*Damage{{What: found}}, err
	}
	return x.s.VerifyAll(ctx)
}

// Position counts the content of a journal. Last is the id of the newest run.
type Position struct {
	Runs, Open, Suspended int
	Records               int64 // number of records of the runs that are not removed
	Bytes                 int64 // size of records and values
	Last                  string
	Schema                int // version of the schema
}

// Position returns the counts of the journal.
func (s *Store) Position(ctx context.Context) (p Position, err error) {
	if p.Schema, err = s.version(ctx); err != nil {
		return p, err
	}
	err = s.read.one(ctx, "position", nil, []any{&p.Runs, &p.Open, &p.Suspended, &p.Records, &p.Bytes, &p.Last})
	return p, err
}

func (s *Store) version(ctx context.Context) (n int, err error) {
	err = s.read.one(ctx, "schema_version", nil, []any{&n})
	return n, err
}

// SuspendOpen suspends the open runs of this host and returns their number. why is an error type.
// The suspension begins at the time of the last record of each run.
func (s *Store) SuspendOpen(ctx context.Context, why string) (n int, err error) {
	open, err := s.Unfinished(ctx)
	if err != nil {
		return 0, err
	}
	for _, u := range open {
		rec := journal.Record{
			Run:   u.Run.ID,
			Seq:   u.Last.Seq + 1,
			At:    u.Last.At,
			Epoch: u.Last.Epoch,
			Body:  &journal.RunSuspended{Why: why},
		}
		if err := s.Append(ctx, rec); err != nil {
			return n, err
		}
		if err := s.Sync(ctx, u.Run.ID); err != nil {
			return n, err
		}
		s.Drop(u.Run.ID)
		n++
	}
	return n, nil
}
