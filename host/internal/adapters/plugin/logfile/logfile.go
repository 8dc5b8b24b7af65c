package logfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// Limits of the log of one plugin: the bytes of one file, and the number of files.
const (
	Size  = 4 << 20
	Count = 2
)

// File is a log file that is rotated when it gets too large: name, name.1 and so on, newest first.
// Each write goes to one file as a whole. It is safe for concurrent use in one process; several
// processes must not write to the same log.
type File struct {
	path  string
	limit int64
	count int

	mu   sync.Mutex
	file *os.File
	size int64
}

// Open opens a log for appending to path, and creates its directory if necessary. There are at most
// count files of limit bytes each; only a single larger write may exceed that.
func Open(path string, limit int64, count int) (*File, error) {
	if limit <= 0 || count <= 0 {
		return nil, fmt.Errorf("open log %s: limit and count must be positive", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	l := &File{path: path, limit: limit, count: count}
	if err := l.open(); err != nil {
		return nil, err
	}
	return l, nil
}

// open opens the newest file. The caller holds l.mu, or is the only user of l.
func (l *File) open() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return fmt.Errorf("open log: %w", err)
	}
	l.file, l.size = f, info.Size()
	return nil
}

// Write implements io.Writer. It first rotates the file if p does not fit into it.
func (l *File) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return 0, fmt.Errorf("write log %s: %w", l.path, os.ErrClosed)
	}
	if l.size > 0 && l.size+int64(len(p)) > l.limit {
		if err := l.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	if err != nil {
		return n, fmt.Errorf("write log: %w", err)
	}
	return n, nil
}

// rotate renames the files and opens a new one. The caller holds l.mu.
func (l *File) rotate() error {
	_ = l.file.Close()
	l.file = nil
	for i := l.count - 1; i > 0; i-- {
		err := os.Rename(l.aside(i-1), l.aside(i))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(fmt.Errorf("rotate log: %w", err), l.open())
		}
	}
	if l.count == 1 {
		if err := os.Remove(l.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(fmt.Errorf("rotate log: %w", err), l.open())
		}
	}
	return l.open()
}

func (l *File) aside(i int) string { return aside(l.path, i) }

// aside returns the name of the i-th file of a log, newest first.
func aside(path string, i int) string {
	if i == 0 {
		return path
	}
	return path + "." + strconv.Itoa(i)
}

// Close implements io.Closer. Further calls do nothing.
func (l *File) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	if err != nil {
		return fmt.Errorf("close log: %w", err)
	}
	return nil
}
