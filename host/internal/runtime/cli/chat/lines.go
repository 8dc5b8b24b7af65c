package chat

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/cli/display"
)

// Streams configures the input and output of a talk without cursor control.
type Streams struct {
	In  io.Reader
	Out io.Writer
	// Prompt is written before each line, and notes and messages are shown. It is empty for a
	// script, which ends with the first line that fails.
	Prompt string
	// Interrupted makes the next interrupt call cancel, until done is called; nil: an interrupt
	// ends the talk.
	Interrupted func(cancel func()) (done func())
	// Live shows text while it arrives, for a terminal on which it cannot be removed.
	Live bool
	// Problem reports the error of a line that failed.
	Problem func(error)
	// Value writes an answer in another format; nil: as text.
	Value func(Answer) error
}

// Lines executes a talk line by line. Each line is a message or a command; a \ at its end continues
// it on the next line. The error is that of the first failed line of a script, or of the streams.
// If ctx is canceled while Lines waits for a line, the next line of the input is read and ignored.
func Lines(ctx context.Context, t *Talk, s Streams) error {
	l := lines{Streams: s}
	if err := t.Begin(ctx, l.show); err != nil {
		return err
	}
	l.begun = true
	in := bufio.NewReader(s.In)
	for l.err == nil && !l.quit {
		line, err := l.next(ctx, in)
		if line = trimmed(line); line != "" && ctx.Err() == nil {
			l.do(ctx, t, line)
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, io.EOF):
			return l.err
		case err != nil:
			return err
		}
	}
	return l.err
}

type lines struct {
	Streams
	written string // of the answer that is arriving
	begun   bool
	quit    bool
	err     error
}

// do executes a line, which an interrupt cancels.
func (l *lines) do(ctx context.Context, t *Talk, line string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if l.Interrupted != nil {
		defer l.Interrupted(cancel)()
	}
	t.Do(ctx, line, "", l.show) // a line that is typed again replaces no message
}

// next reads a line. It returns an empty line when ctx is canceled.
func (l *lines) next(ctx context.Context, in *bufio.Reader) (line string, err error) {
	l.write(l.Prompt)
	read := make(chan struct{})
	var got string
	var failed error
	go func() {
		defer close(read)
		got, failed = readLine(in)
	}()
	select {
	case <-read:
		return got, failed
	case <-ctx.Done():
		return "", nil
	}
}

// readLine reads a line with its continuation lines. A backslash that nothing follows is text.
func readLine(in *bufio.Reader) (string, error) {
	var all strings.Builder
	for {
		line, err := in.ReadString('\n')
		line = strings.TrimRight(line, "\r\n")
		more, continued := strings.CutSuffix(line, `\`)
		if continued && err == nil {
			_, err = in.Peek(1)
		}
		if !continued || err != nil {
			all.WriteString(line)
			return all.String(), err
		}
		all.WriteString(more + "\n")
	}
}

func (l *lines) write(text string) {
	if _, err := io.WriteString(l.Out, text); err != nil && l.err == nil {
		l.err = err
	}
}

// shown writes a text of the conversation as complete lines.
func (l *lines) shown(text string) {
	l.write(display.Shown(l.Out, strings.TrimSuffix(text, "\n")) + "\n")
}

// endLine ends a line that was written partly.
func (l *lines) endLine() {
	if l.written != "" && !strings.HasSuffix(l.written, "\n") {
		l.write("\n")
	}
	l.written = ""
}

func (l *lines) show(e Event) {
	switch e := e.(type) {
	case Piece:
		if l.Live {
			l.write(clean(e.Text))
			l.written += e.Text
		}
	case Retracted:
		if l.Live {
			l.endLine()
			l.shown("[retracted: " + e.Reason + "]")
		}
	case Answer:
		l.answer(e)
	case Said:
		l.note(e.Role + ": " + e.Text)
	case Note:
		l.note(e.Text)
	case Offer:
		l.note("to send again: " + e.Line)
	case Failed:
		l.endLine()
		if l.Prompt == "" {
			l.err = e.Err
			return
		}
		l.Problem(e.Err)
		if e.Canceled {
			l.note("to send again: " + e.Again.Line)
		}
	case Quit:
		l.quit = true
	}
}

// note shows a text that is not an answer. A script gets it only if it has requested it.
func (l *lines) note(text string) {
	if l.Prompt != "" || l.begun && l.Value == nil {
		l.shown(text)
	}
}

func (l *lines) answer(a Answer) {
	if l.Value != nil {
		if err := l.Value(a); err != nil && l.err == nil {
			l.err = err
		}
		return
	}
	if l.written != a.Text {
		l.endLine()
		l.shown(a.Text)
		return
	}
	l.endLine()
}
