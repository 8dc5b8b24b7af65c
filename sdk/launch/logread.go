package launch

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

// LogReader reads the lines of a [LogFile], which another process may be
// writing and rotating meanwhile. It loses no line as long as it does not fall
// behind by more than the files hold. A reader is for one goroutine.
type LogReader struct {
	path  string
	files []*os.File // oldest first; the last one is the one that may still grow
	part  []byte     // of a line that is not complete yet
	lines [][]byte   // complete and not yet given
	buf   []byte
}

// logPoll is how often a reader that waits looks for more.
const logPoll = 100 * time.Millisecond

// OpenLog begins to read with the oldest line that is kept. A log that was never
// written is fs.ErrNotExist.
func OpenLog(path string) (*LogReader, error) {
	r := &LogReader{path: path, buf: make([]byte, 64<<10)}
	// The newest first: should it be put aside meanwhile, it is met again as an
	// older one and left out.
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

// Last gives the last n complete lines that there are now, without their ends;
// a negative n gives all. What is read next follows them.
func (r *LogReader) Last(n int) ([][]byte, error) {
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

// Next gives the next line and waits for it if need be. When ctx ends the error
// is its cause.
func (r *LogReader) Next(ctx context.Context) ([]byte, error) {
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
		timer := time.NewTimer(logPoll)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

// fill reads a piece; more is false if there is nothing at the moment.
func (r *LogReader) fill() (more bool, err error) {
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

// next goes on with the file that was written after the first. A line never
// spans two files: what is left of one was cut by the death of its writer.
func (r *LogReader) next() {
	_ = r.files[0].Close()
	r.files = r.files[1:]
	if len(r.part) > 0 {
		r.lines, r.part = append(r.lines, r.part), nil
	}
}

// follow looks whether the file at hand was put aside, and by which others.
func (r *LogReader) follow() (more bool, err error) {
	at := r.files[0]
	var newer []*os.File
	for n := 0; ; n++ {
		f, err := os.Open(aside(r.path, n))
		if errors.Is(err, fs.ErrNotExist) {
			if n == 0 {
				closeAll(newer)
				return false, nil // between two names; it is there in a moment
			}
			break // it was dropped; what there is was all written after it
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
	// It may have got its last lines after they were looked for, and before it
	// was put aside.
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

func (r *LogReader) take(text []byte) {
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
func (r *LogReader) Close() error {
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
