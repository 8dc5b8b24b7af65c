package logfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// Reader reads the lines of a [File] while another process writes and rotates it. Lines are lost
// only if the reader falls behind by more than the rotated files hold. It is not safe for
// concurrent use.
type Reader struct {
	path  string
	files []*os.File // oldest first; only the last one may still grow
	part  []byte     // start of an incomplete line
	lines [][]byte   // complete lines that were not returned yet
	buf   []byte
}

// logPoll is the polling interval of Next.
const logPoll = 100 * time.Millisecond

// OpenReader returns a reader that starts at the oldest line that is kept. The error wraps
// fs.ErrNotExist if the log was never written. The caller must close the reader.
func OpenReader(path string) (*Reader, error) {
	r := &Reader{path: path, buf: make([]byte, 64<<10)}
	// The newest file is opened first: if it is rotated in the meantime, it is found again under an
	// older name and skipped.
	newest, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	r.files = []*os.File{newest}
	for n := 1; ; n++ {
		f, err := os.Open(aside(path, n))
		if errors.Is(err, fs.ErrNotExist) {
			return r, nil
		}
		if err != nil {
			_ = r.Close()
			return nil, fmt.Errorf("read log: %w", err)
		}
		if sameLog(f, r.files[0]) {
			_ = f.Close()
			continue
		}
		r.files = append([]*os.File{f}, r.files...)
	}
}

// Await is OpenReader for a log that may not exist yet: it waits until the log is written. When ctx
// ends, the error is the cause of ctx.
func Await(ctx context.Context, path string) (*Reader, error) {
	for {
		r, err := OpenReader(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return r, err
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

// pause waits for one polling interval.
func pause(ctx context.Context) error {
	timer := time.NewTimer(logPoll)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Last returns the last n complete lines that exist now, without line ends; a negative n returns
// all. Next continues after them.
func (r *Reader) Last(n int) ([][]byte, error) {
	for {
		more, err := r.fill()
		if err != nil {
			return nil, err
		}
		if n >= 0 && len(r.lines) > n {
			r.lines = append(r.lines[:0:0], r.lines[len(r.lines)-n:]...)
		}
		if !more {
			break
		}
	}
	lines := r.lines
	r.lines = nil
	return lines, nil
}

// Next returns the next complete line without its line end, and waits for it if necessary. When ctx
// ends, the error is the cause of ctx.
func (r *Reader) Next(ctx context.Context) ([]byte, error) {
	for {
		if len(r.lines) > 0 {
			line := r.lines[0]
			r.lines = r.lines[1:]
			return line, nil
		}
		more, err := r.fill()
		if err != nil {
			return nil, err
		}
		if more {
			continue
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

// fill reads one buffer. more is false if nothing can be read at the moment.
func (r *Reader) fill() (more bool, err error) {
	n, err := r.files[0].Read(r.buf)
	r.take(r.buf[:n])
	switch {
	case n > 0:
		return true, nil
	case err != nil && !errors.Is(err, io.EOF):
		return false, fmt.Errorf("read log: %w", err)
	case len(r.files) > 1:
		r.next()
		return true, nil
	}
	return r.follow()
}

// next continues with the second file. A line never spans two files; an incomplete line at the end
// of a file was cut off when its writer was killed.
func (r *Reader) next() {
	_ = r.files[0].Close()
	r.files = r.files[1:]
	if len(r.part) > 0 {
		r.lines, r.part = append(r.lines, r.part), nil
	}
}

// follow checks whether the current file was rotated, and opens the newer ones.
func (r *Reader) follow() (more bool, err error) {
	at := r.files[0]
	var newer []*os.File
	for n := 0; ; n++ {
		f, err := os.Open(aside(r.path, n))
		if errors.Is(err, fs.ErrNotExist) {
			if n == 0 {
				closeAll(newer)
				return false, nil // a rotation is in progress; the file will exist soon
			}
			break // the current file was deleted; all existing files are newer
		}
		if err != nil {
			closeAll(newer)
			return false, fmt.Errorf("read log: %w", err)
		}
		if sameLog(f, at) {
			_ = f.Close()
			break
		}
		newer = append([]*os.File{f}, newer...)
	}
	if len(newer) == 0 {
		return false, nil
	}
	// The rotated file may have received lines after the last read.
	for {
		n, err := at.Read(r.buf)
		r.take(r.buf[:n])
		if n == 0 || err != nil {
			break
		}
	}
	r.files = append([]*os.File{at}, newer...)
	r.next()
	return true, nil
}

func (r *Reader) take(text []byte) {
	for len(text) > 0 {
		line, rest, complete := bytes.Cut(text, []byte{'\n'})
		r.part = append(r.part, line...)
		if complete {
			r.lines, r.part = append(r.lines, r.part), nil
		}
		text = rest
	}
}

// Close implements io.Closer.
func (r *Reader) Close() error {
	var errs []error
	for _, f := range r.files {
		errs = append(errs, f.Close())
	}
	r.files = nil
	return errors.Join(errs...)
}

func sameLog(a, b *os.File) bool {
	x, err1 := a.Stat()
	y, err2 := b.Stat()
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
