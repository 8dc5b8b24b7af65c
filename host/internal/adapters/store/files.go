package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Faults are test hooks that simulate a failing disk. The zero value has no hooks.
type Faults struct {
	// Before is called before each operation on files and the database; an error from it fails the
	// operation. The operations are "blob/write", "blob/sync", "blob/rename", "blob/dir", "begin",
	// "commit" and "checkpoint".
	Before func(op string) error
	// Free, if set, returns the free bytes in place of the file system.
	Free func() (uint64, error)
	// Network, if set, returns the type of the network file system of a directory, empty for a
	// local one.
	Network func(dir string) (string, error)
}

func (f Faults) at(op string) error {
	if f.Before == nil {
		return nil
	}
	return f.Before(op)
}

// blobs stores bodies that are too large for a row as files <2 hex>/<hash> below dir. A nil *blobs
// stores none: every body is in its row.
type blobs struct {
	dir    string
	faults Faults
	lock   *os.File // the open folder; its flock is the lock of the database
}

// LockedError is the error of opening a database that another Store has open.
type LockedError struct{ Path string }

// Error implements error.
func (e *LockedError) Error() string {
	return "store: open " + e.Path + ": another process has the database open; stop it first"
}

// NetworkError is the error of opening an SQLite file on a network file system, on which shared
// memory, locks and syncs are not reliable.
type NetworkError struct{ Path, FileSystem string }

// Error implements error.
func (e *NetworkError) Error() string {
	return fmt.Sprintf("%s is on the network file system %s, where SQLite can lose what it has committed",
		e.Path, e.FileSystem)
}

// Fix returns the next step for the operator.
func (*NetworkError) Fix() string {
	return `name a directory of a local disk in ferment.data_dir, or use driver = "postgres" in the block store; ` +
		`allow_network_fs = true there accepts the risk`
}

// checkLocal returns a *NetworkError for files that are on another machine.
func (o Options) checkLocal(dir string) error {
	if o.AllowNetworkFS {
		return nil
	}
	look := networkFS
	if o.Faults.Network != nil {
		look = o.Faults.Network
	}
	found, err := look(dir)
	if err == nil && found != "" {
		err = &NetworkError{Path: o.Path, FileSystem: found}
	}
	return err
}

// openBlobs opens the folder blobs beside a database and locks it. It also syncs the folders that
// an earlier process created. The error is a *LockedError or *NetworkError, or one of the file
// system.
func openBlobs(opts Options) (*blobs, error) {
	dir := filepath.Join(filepath.Dir(opts.Path), "blobs")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := opts.checkLocal(dir); err != nil {
		return nil, err
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &LockedError{opts.Path}
		}
		return nil, err
	}
	b := &blobs{dir, opts.Faults, f}
	if err := b.syncFolder(dir); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *blobs) close() error {
	if b == nil {
		return nil
	}
	return b.lock.Close()
}

func (b *blobs) path(h sum) string {
	name := hex.EncodeToString(h[:])
	return filepath.Join(b.dir, name[:2], name)
}

// checkEmptied returns a *Damage for a database that is empty beside files that it
// must have named, or that is empty or missing beside its log, which SQLite would delete.
func (b *blobs) checkEmptied(database string) error {
	info, err := os.Stat(database)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing || err == nil && info.Size() > 0 {
		return nil
	}
	if log, err := os.Stat(database + "-wal"); err == nil && log.Size() > 0 {
		return lost("the file is empty or missing, but its log is not")
	}
	if missing {
		return nil
	}
	if values, err := filepath.Glob(filepath.Join(b.dir, "??", "*")); err != nil || len(values) > 0 {
		return errors.Join(lost("the file is empty, but there are values in "+b.dir), err)
	}
	return nil
}

// write makes a body durable under its hash. A file of the right size was completely written and is
// kept, but its folder is synced again, because the process that wrote it may have stopped before
// that sync.
func (b *blobs) write(h sum, body []byte) (err error) {
	name := b.path(h)
	folder := filepath.Dir(name)
	if info, err := os.Stat(name); err == nil && info.Size() == int64(len(body)) {
		return b.syncFolder(folder)
	}
	if err := os.Mkdir(folder, 0o700); err == nil {
		if err := b.syncFolder(b.dir); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := os.CreateTemp(b.dir, tempPrefix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	for _, step := range []struct {
		op string
		do func() error
	}{
		{"blob/write", func() error { _, err := f.Write(body); return err }},
		{"blob/sync", f.Sync},
		{"blob/rename", func() error { return errors.Join(f.Close(), os.Rename(f.Name(), name)) }},
	} {
		if err := b.faults.at(step.op); err != nil {
			return err
		}
		if err := step.do(); err != nil {
			return err
		}
	}
	return b.syncFolder(folder)
}

const tempPrefix = "tmp-"

func (b *blobs) syncFolder(name string) error {
	if err := b.faults.at("blob/dir"); err != nil {
		return err
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (b *blobs) read(h sum) ([]byte, error) { return os.ReadFile(b.path(h)) }

// remove deletes the files of the hashes. A missing file is not an error.
func (b *blobs) remove(all []sum) error {
	for _, h := range all {
		if err := os.Remove(b.path(h)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// sweep calls drop for the files that no value names, such as those left by a crash.
func (b *blobs) sweep(ctx context.Context, named func(sum) (bool, error), drop func(path string) error) error {
	if b == nil {
		return nil
	}
	return WalkDir(b.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return errors.Join(err, ctx.Err())
		}
		if h, err := parseSum("b3:" + d.Name()); err == nil {
			if ok, err := named(h); ok || err != nil {
				return err
			}
		} else if !strings.HasPrefix(d.Name(), tempPrefix) {
			return nil // not a file of the store
		}
		return drop(path)
	})
}

// Reserve of free space: the size of its file and its name.
const (
	reserveSize = 64 << 20
	reserveName = "reserve"
)

// reserve is a file that occupies space and is deleted when the disk is full, so that running runs
// can finish.
type reserve struct {
	path   string
	size   int64
	faults Faults

	mu   sync.Mutex
	held bool
}

// hold allocates the file. If there is not enough space, it holds nothing and returns no error.
func (r *reserve) hold() {
	if r == nil {
		return
	}
	f, err := os.OpenFile(r.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	if err := allocate(f, r.size); err != nil {
		_ = os.Remove(r.path)
		return
	}
	r.held = true
}

// release gives the space back.
func (r *reserve) release() error {
	r.held = false
	err := os.Remove(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// free returns the bytes that this process may still write.
func (r *reserve) free() (uint64, error) {
	if r.faults.Free != nil {
		return r.faults.Free()
	}
	var st unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(r.path), &st); err != nil {
		return 0, err
	}
	return st.Bavail * uint64(st.Bsize), nil
}
