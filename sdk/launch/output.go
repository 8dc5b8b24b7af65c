package launch

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
)

// Stream is the source of a line.
type Stream string

// The streams of a process. Print and PrintErr are the output that a Go plugin
// writes to os.Stdout and os.Stderr after go-plugin has replaced them; it
// arrives by RPC.
const (
	Stdout   Stream = "stdout"
	Stderr   Stream = "stderr"
	Print    Stream = "print"
	PrintErr Stream = "print-err"
)

// MaxLine is the maximal length of a line, in bytes; further bytes are dropped,
// so that an endless line costs no memory. readLine is the length that is read,
// so that a secret which begins before the cut is recognized by its end.
const (
	MaxLine  = 128 << 10
	readLine = 2 * MaxLine
)

// Line is one line of output.
type Line struct {
	Stream Stream
	Text   string // without the newline; may be any bytes
	Cut    int64  // number of bytes dropped at its end
}

// scanLines calls each for every line of r until r ends, including a last line
// without a newline. It buffers at most readLine bytes.
func scanLines(r io.Reader, stream Stream, each func(Line)) {
	in := bufio.NewReaderSize(r, 32<<10)
	var line []byte
	var cut int64
	for {
		part, err := in.ReadSlice('\n')
		complete := err == nil
		part = bytes.TrimSuffix(part, []byte{'\n'})
		if room := readLine - len(line); len(part) > room {
			cut += int64(len(part) - room)
			part = part[:room]
		}
		line = append(line, part...)
		switch {
		case complete:
			each(Line{Stream: stream, Text: string(bytes.TrimSuffix(line, []byte{'\r'})), Cut: cut})
			line, cut = line[:0], 0
		case !errors.Is(err, bufio.ErrBufferFull):
			if len(line) > 0 {
				each(Line{Stream: stream, Text: string(line), Cut: cut})
			}
			return
		}
	}
}

// LineWriter splits writes into lines of one stream. Close flushes a last line
// without a newline. It is safe for concurrent use.
type LineWriter struct {
	stream Stream
	each   func(Line)
	mu     sync.Mutex
	line   []byte
	cut    int64
}

// NewLineWriter returns a writer that calls each for every complete line.
func NewLineWriter(stream Stream, each func(Line)) *LineWriter {
	return &LineWriter{stream: stream, each: each}
}

// Write implements io.Writer; it never fails.
func (w *LineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for rest := p; len(rest) > 0; {
		part, after, complete := bytes.Cut(rest, []byte{'\n'})
		rest = after
		if room := readLine - len(w.line); len(part) > room {
			w.cut += int64(len(part) - room)
			part = part[:room]
		}
		w.line = append(w.line, part...)
		if complete {
			w.flush()
		}
	}
	return len(p), nil
}

// Close implements io.Closer.
func (w *LineWriter) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.line) > 0 {
		w.flush()
	}
	return nil
}

// flush needs w.mu.
func (w *LineWriter) flush() {
	w.each(Line{Stream: w.stream, Text: string(bytes.TrimSuffix(w.line, []byte{'\r'})), Cut: w.cut})
	w.line, w.cut = w.line[:0], 0
}

// Limits of the output that is kept for a diagnostic.
const (
	tailLines    = 200
	TailBytes    = 256 << 10
	tailLineSize = 4 << 10
	panicLines   = 20
	outputHead   = 512
)

// Tail keeps the last lines of a process, at most tailLines with TailBytes in
// total and each shortened to 4 KiB, and the head of the first Go panic. It is
// safe for concurrent use.
type Tail struct {
	mu    sync.Mutex
	lines [tailLines]string
	first int // index of the oldest line
	count int
	bytes int
	panic []string
	dying bool
}

// Add adds one line.
func (t *Tail) Add(line string) {
	kept := Clip(line, tailLineSize)
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.count > 0 && (t.count == tailLines || t.bytes+len(kept) > TailBytes) {
		t.bytes -= len(t.lines[t.first])
		t.lines[t.first] = ""
		t.first, t.count = (t.first+1)%tailLines, t.count-1
	}
	t.lines[(t.first+t.count)%tailLines] = kept
	t.count, t.bytes = t.count+1, t.bytes+len(kept)
	if !t.dying && (strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") ||
		strings.HasPrefix(line, "runtime: out of memory")) {
		t.dying = true
	}
	if t.dying && len(t.panic) < panicLines {
		t.panic = append(t.panic, kept)
	}
}

// Lines returns the kept lines, oldest first.
func (t *Tail) Lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]string, t.count)
	for i := range out {
		out[i] = t.lines[(t.first+i)%tailLines]
	}
	return out
}

// panicText returns the first lines of a panic, nil if none was seen.
func (t *Tail) panicText() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.panic...)
}
