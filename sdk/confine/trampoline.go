package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// trampolineCommand is the hidden subcommand that makes an executable that
// imports this package the trampoline.
const trampolineCommand = "internal-confine"

// The trampoline runs during package initialization: the initialization of the
// whole program costs more than the trampoline does.
func init() {
	if len(os.Args) > 1 && os.Args[1] == trampolineCommand {
		os.Exit(trampoline(os.Args[2:]))
	}
}

// Start describes a program that is to run confined.
type Start struct {
	Policy Policy
	// Path is the program. File, if not nil, is the same file opened for
	// reading; it is executed even if Path leads to another file by then. A
	// script is an exception, because its interpreter opens it by path: compare
	// the two with [SameProgram] once it runs. The caller keeps File and may
	// close it after the start.
	Path string
	File *os.File
	// Argv are the arguments, including the name of the program, and Env is the
	// complete environment.
	Argv, Env []string
	// Deathly makes the kernel kill the program when the thread that starts it
	// ends.
	Deathly bool
	// Mark, if not 0, is carried by the program and all of its descendants,
	// whatever their sessions and parents are later; see [NewMark] and [Mark].
	Mark uint64
}

// Prepared is a start through the trampoline of this executable: start Path
// with Args, with Files after the three standard streams and an empty
// environment, then call Outcome.
type Prepared struct {
	Path  string
	Args  []string
	Files []*os.File // orders, program, status; closed by Close

	status *os.File // our end
}

// order is the input of the trampoline.
type order struct {
	Policy  Policy   `json:"policy"`
	Path    string   `json:"path"`
	Argv    []string `json:"argv"`
	Env     []string `json:"env"`
	Parent  int      `json:"parent"`
	Deathly bool     `json:"deathly"`
	Mark    uint64   `json:"mark"`
}

// report is the error of a trampoline that cannot execute the program.
type report struct {
	Layer Layer         `json:"layer"`
	Path  string        `json:"path,omitempty"`
	Text  string        `json:"text"`
	Errno syscall.Errno `json:"errno,omitempty"`
}

func reportOf(err error) report {
	r := report{Layer: LayerProgram, Text: err.Error()}
	var own *Error
	if errors.As(err, &own) {
		r.Layer, r.Path, r.Text = own.Layer, own.Path, own.Err.Error()
	}
	errors.As(err, &r.Errno)
	return r
}

func (r report) err() error {
	cause := errors.New(r.Text)
	if r.Errno != 0 {
		cause = r.Errno
		if text := r.Errno.Error(); text != r.Text {
			cause = &quoted{r.Text, r.Errno}
		}
	}
	return &Error{Layer: r.Layer, Path: r.Path, Err: cause}
}

// quoted is an error of another process: its text and its number.
type quoted struct {
	text  string
	errno syscall.Errno
}

func (q *quoted) Error() string { return q.text }
func (q *quoted) Unwrap() error { return q.errno }

// Outcome waits at most limit until the trampoline has executed the program, and
// returns an [Error] if it has not. It returns nil also if the trampoline ended
// without a report. After a timeout or a failed read the caller must kill the
// process; after a reported error it ends by itself. Call it once, after the start
// and after Close.
func (p *Prepared) Outcome(limit time.Duration) error {
	_ = p.status.SetReadDeadline(time.Now().Add(limit))
	text, err := readAll(p.status)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &Error{Layer: LayerProgram, Err: fmt.Errorf("the start in isolation took longer than %s", limit)}
	case err != nil:
		return &Error{Layer: LayerProgram, Err: err}
	case len(text) == 0:
		return nil // close-on-exec closed the descriptor
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		return &Error{Layer: LayerProgram,
			Err: fmt.Errorf("the start in isolation failed, and its report cannot be read: %w", err)}
	}
	return r.err()
}

// Close closes the descriptors that were passed to the child. Call it after the
// start and before Outcome, which otherwise waits until its limit.
func (p *Prepared) Close() {
	for _, f := range p.Files {
		_ = f.Close()
	}
	p.Files = nil
}

// Abandon closes all descriptors; call it if the start fails, and after
// Outcome.
func (p *Prepared) Abandon() {
	p.Close()
	_ = p.status.Close()
}

// Script reports whether an open program starts with #!, so that its
// interpreter opens it by path.
func Script(f *os.File) bool {
	var head [2]byte
	n, _ := f.ReadAt(head[:], 0)
	return string(head[:n]) == "#!"
}

// SameProgram returns an [Error] if path leads to another file than f. It does
// not compare the content.
func SameProgram(path string, f *os.File) error {
	now, err := os.Stat(path)
	var then os.FileInfo
	if err == nil {
		then, err = f.Stat()
	}
	switch {
	case err != nil:
		return &Error{Layer: LayerProgram, Path: path, Err: err}
	case !os.SameFile(then, now):
		return &Error{Layer: LayerProgram, Path: path, Err: errors.New("the file was replaced while it was started")}
	}
	return nil
}
