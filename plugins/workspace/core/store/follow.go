package store

import (
	"context"
	"path/filepath"

	"github.com/fermenthq/ferment/plugins/workspace/core/log"
	"github.com/fermenthq/ferment/sdk/contract"
)

// Follow opens a data directory that another process writes, for reading only. It takes
// no lock and does not wait, and each View sees the transactions that the other process
// has committed. Writes fail with store/locked. If a compaction of the other process
// removes data during a View, the View returns store/corrupt; Follow must then be called
// again.
func Follow(ctx context.Context, dir string, o Options) (_ *Store, err error) {
	s := newStore(dir, o)
	s.follows = true
	if err := checkDir(dir); err != nil {
		return nil, err
	}
	if s.Identity, s.Scheme, _, err = readIdentity(dir); err != nil {
		return nil, err
	}
	s.index = &index{path: filepath.Join(dir, indexFile), scheme: s.Scheme}
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	if s.index.readers, err = openReaders(s.index.path); err != nil {
		return nil, asStoreError("follow", err)
	}
	if err = belongs(ctx, s.index.readers.db, s.Identity); err != nil {
		err = s.unusable(ctx, dir, err)
		return nil, err
	}
	end, err := checkpoint(ctx, s.index.readers.db)
	if err != nil {
		return nil, asStoreError("follow", err)
	}
	s.log = log.Follow(filepath.Join(dir, logDir), s.Scheme.Alg())
	s.news.publish(end.Seq)
	return s, nil
}

// unusable returns the error of an index that Follow cannot use: that of ctx, or store/locked,
// because a process that opens the workspace for writing builds a missing index.
func (s *Store) unusable(ctx context.Context, dir string, cause error) error {
	if err := ctx.Err(); err != nil {
		return asStoreError("follow", err)
	}
	var tables int
	err := s.index.readers.db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables)
	if !exists(s.index.path) || err == nil && tables == 0 {
		return locked(dir, "another process builds the index of the workspace")
	}
	return locked(dir, otherWrites+", and the index cannot be used: "+cause.Error())
}

// Follows reports whether the store was opened by Follow.
func (s *Store) Follows() bool { return s.follows }

// otherWrites is the message for a store that another process writes.
const otherWrites = "another process works on the workspace"

func locked(path, why string) *contract.Error {
	return contract.Errorf("store/locked", "%s", why).WithOp("store: lock", path).
		WithHint("wait until the other command has ended; with a daemon, omit --local: its commands share one process")
}
