package cli_test

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/sdk/edn"
)

// emulated is a program on a pseudo terminal whose screen is emulated.
type emulated struct {
	t    testing.TB
	cmd  *exec.Cmd
	mine *os.File
	read sync.WaitGroup

	mu     sync.Mutex
	screen *vt.Emulator
	all    strings.Builder // what the program has written
	drawn  chan struct{}   // closed when the screen has changed
}

// emulate starts a command on a terminal of its own.
func (w *world) emulate(columns, rows int, env []string, args ...string) *emulated {
	w.t.Helper()
	mine, its := terminal(w.t)
	e := &emulated{t: w.t, mine: mine, screen: vt.NewEmulator(columns, rows), drawn: make(chan struct{})}
	e.size(columns, rows)
	e.cmd = exec.Command(built.ferment, args...)
	e.cmd.Dir, e.cmd.Env = w.dir, append(append(w.env, "TERM=xterm-256color"), env...)
	e.cmd.Stdin, e.cmd.Stdout, e.cmd.Stderr = its, its, its
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(w.t, e.cmd.Start())
	require.NoError(w.t, its.Close())
	e.read.Go(func() {
		buffer := make([]byte, 1<<16)
		for {
			n, err := mine.Read(buffer)
			if err != nil {
				return // the end of a terminal
			}
			e.mu.Lock()
			_, _ = e.screen.Write(buffer[:n])
			e.all.Write(buffer[:n])
			close(e.drawn)
			e.drawn = make(chan struct{})
			e.mu.Unlock()
		}
	})
	go func() { // answers of the terminal, until it is closed
		buffer := make([]byte, 1<<10)
		for {
			n, err := e.screen.Read(buffer)
			if err != nil {
				return
			}
			_, _ = mine.Write(buffer[:n])
		}
	}()
	w.t.Cleanup(func() {
		_ = e.cmd.Process.Kill()
		_ = e.cmd.Wait()
		e.read.Wait()
		_ = e.screen.Close()
	})
	return e
}

func (e *emulated) size(columns, rows int) {
	e.t.Helper()
	require.NoError(e.t, unix.IoctlSetWinsize(int(e.mine.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(rows), Col: uint16(columns)}))
}

// resize changes the size of the terminal.
func (e *emulated) resize(columns, rows int) {
	e.t.Helper()
	e.mu.Lock()
	e.screen.Resize(columns, rows)
	e.mu.Unlock()
	e.size(columns, rows)
}

func (e *emulated) types(keys string) {
	e.t.Helper()
	_, err := e.mine.WriteString(keys)
	require.NoError(e.t, err)
}

// lines are the scrollback and the screen, without empty lines.
func (e *emulated) lines() (out []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	back := e.screen.Scrollback()
	for y := range back.Len() {
		out = append(out, back.Line(y).String())
	}
	out = append(out, strings.Split(e.screen.String(), "\n")...)
	var full []string
	for _, line := range out {
		if line = strings.TrimRight(line, " "); line != "" {
			full = append(full, line)
		}
	}
	return full
}

// shows waits until the lines end with the given ones.
func (e *emulated) shows(last ...string) {
	e.t.Helper()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for {
		e.mu.Lock()
		drawn := e.drawn
		e.mu.Unlock()
		lines := e.lines()
		if len(lines) >= len(last) && strings.Join(lines[len(lines)-len(last):], "\n") == strings.Join(last, "\n") {
			return
		}
		select {
		case <-drawn:
		case <-limit.C:
			require.Fail(e.t, "the screen does not show it", "expected at the end:\n%s\n\nfound:\n%s", strings.Join(last, "\n"), strings.Join(lines, "\n"))
		}
	}
}

// written is all that the program has written so far.
func (e *emulated) written() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.all.String()
}

// ends waits for the end of the program and of what it wrote, and returns its exit code.
func (e *emulated) ends() int {
	_ = e.cmd.Wait()
	e.read.Wait()
	return e.cmd.ProcessState.ExitCode()
}

// A chat on a terminal: an answer, one that is retracted, one that is canceled and sent
// again, a paste, a resize, and the end; the conversation is what the screen shows.
func TestChatOnTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, chatWorld(onDisk)...)
	s := w.serve()
	e := w.emulate(60, 20, nil, "chat", "c-01")
	ready := "c-01 · llm/voice · /help"
	e.shows("new conversation c-01", ready, ">")
	e.types("Hello\r")
	e.shows("new conversation c-01", "> Hello", "aha", ready, ">")
	assert.Contains(t, e.written(), "\x1b[1ma\x1b[m", "bold")
	e.types("again\r")
	e.shows("> again", "LOUD", "retracted: eval/must-failed", "you said: Hello", ready, ">")
	e.types("long\r")
	e.shows("> long", "so far", "waiting for llm/voice · Ctrl-C cancels", ">")
	e.types("\x03")
	e.shows("so far", "canceled: the conversation is as it was before", ready, "> long")
	e.types("\x7f\x7f\x7f\x7f\x1b[200~two\nlines 日本\x1b[201~")
	e.shows(ready, "> two", "  lines 日本")
	e.resize(30, 12)
	e.types("\r")
	e.shows("> two", "  lines 日本", "aha", ready, ">")
	e.types("/quit\r")
	assert.Equal(t, 0, e.ends())
	assert.Equal(t, "Hello|**a**ha|again|you said: Hello|two\nlines 日本|**a**ha", w.texts(t, "c-01"))
	drafts := w.say(t, "get", `{:conversation/id "c-01"}`).Key("drafts")
	assert.True(t, drafts.IsNil(), "the message that was sent in place of the canceled one left a draft: %s", drafts)

	// The first message of a conversation got no answer: it is offered, and sent again.
	w.say(t, "open", `{:conversation/id "c-02"}`)
	got := w.run("act", "conversation/send", `{:conversation/id "c-02" :text "First" :model {:cap/ref :mine/absent}}`)
	require.NotEqual(t, 0, got.code, got.stdout)
	require.False(t, w.say(t, "get", `{:conversation/id "c-02"}`).Key("drafts").IsNil())
	e = w.emulate(60, 20, nil, "chat", "c-02", "--model", "mine/spare")
	ready = "c-02 · mine/spare · /help"
	e.shows("conversation c-02, 0 turns, 1 message without an answer", ready, "> First")
	e.types("\r")
	e.shows("> First", "you said: First", ready, ">")
	e.types("/quit\r")
	assert.Equal(t, 0, e.ends())
	assert.Equal(t, "First|you said: First", w.texts(t, "c-02"))
	assert.True(t, w.say(t, "get", `{:conversation/id "c-02"}`).Key("drafts").IsNil())
	s.stop()
}

// A canceled answer is reported as canceled when the daemon has ended its run.
func TestChatConfirmsCancellation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, chatWorld(onDisk)...)
	s := w.serve()
	e := w.emulate(60, 20, nil, "chat", "c-01", "--model", "mine/silent")
	ready := "c-01 · mine/silent · /help"
	e.shows("new conversation c-01", ready, ">")
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGSTOP))
	e.types("Hello\r")
	e.shows("> Hello", "working · Ctrl-C cancels", ">")
	e.types("\x03")
	e.shows("> Hello", "canceling", ">")
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGCONT))
	e.shows("> Hello", "canceled: the conversation is as it was before", ready, "> Hello")
	of := w.say(t, "get", `{:conversation/id "c-01"}`)
	assert.Zero(t, of.Key("turns").Len())
	assert.LessOrEqual(t, of.Key("drafts").Len(), 1)
	e.types("\x03\x03\x03")
	assert.Equal(t, 0, e.ends())
	s.stop()
}

// CNV-021: no message without an answer is lost by a line that is another text: of a
// script, in place of one of several, or while the message was being answered.
func TestChatKeepsUnanswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, chatWorld(onDisk)...)
	s := w.serve()
	drafts := func(id string) string {
		var out []string
		for d := range w.say(t, "get", `{:conversation/id "`+id+`"}`).Key("drafts").Elems() {
			said, _ := d.Key("message").Key("content").AsString()
			out = append(out, said)
		}
		return strings.Join(out, "|")
	}
	w.say(t, "open", `{:conversation/id "c-01"}`)
	for _, text := range []string{"/first", "second"} {
		got := w.run("act", "conversation/send", `{:conversation/id "c-01" :text "`+text+`" :model {:cap/ref :mine/absent}}`)
		require.NotEqual(t, 0, got.code, got.stdout)
	}
	got := w.chat("unrelated\n", "c-01", "--model", "mine/spare")
	require.Equal(t, 0, got.code, got.stderr)
	assert.Equal(t, "/first|second", drafts("c-01"))

	e := w.emulate(72, 20, nil, "chat", "c-01", "--model", "mine/spare")
	ready := "c-01 · mine/spare · /help"
	e.shows("conversation c-01, 2 turns, 2 messages without an answer", "> unrelated", "you said: unrelated",
		ready+" · 1 more line to send", "> //first")
	e.types("\r")
	e.shows("> //first", "you said: unrelated", ready, "> second")
	assert.Equal(t, "second", drafts("c-01"))
	e.types("\x03")
	e.shows(ready, ">")
	e.types("third\r")
	e.shows("> third", "you said: unrelated", ready, ">")
	e.types("/quit\r")
	assert.Equal(t, 0, e.ends())
	assert.Equal(t, "second", drafts("c-01"), "it was cleared, not sent")

	e = w.emulate(72, 20, nil, "chat", "c-02")
	ready = "c-02 · llm/voice · /help"
	e.shows("new conversation c-02", ready, ">")
	e.types("Hello\r")
	e.shows("> Hello", "aha", ready, ">")
	e.types("again\r")
	e.shows("you said: Hello", ready, ">")
	e.types("question\r")
	e.shows("so far", "waiting for llm/voice · Ctrl-C cancels", ">")
	e.types("/model mine/spare\x03")
	e.shows("canceled: the conversation is as it was before", ready+" · 1 more line to send", "> /model mine/spare")
	e.types("\r")
	e.shows("the next answer is from mine/spare", "c-02 · mine/spare · /help", "> question")
	e.types("\x03")
	e.shows("c-02 · mine/spare · /help", ">")
	e.types("next words\r")
	e.shows("> next words", "you said: Hello", "c-02 · mine/spare · /help", ">")
	e.types("/quit\r")
	assert.Equal(t, 0, e.ends())
	assert.Equal(t, "question", drafts("c-02"))
	s.stop()
}

// What is pasted, and a message without an answer that is sent as it was offered, are stored
// byte for byte. Ctrl-C on an empty input ends the program when it is repeated.
func TestChatKeepsText(t *testing.T) {
	t.Parallel()
	w := newWorld(t, chatWorld(onDisk)...)
	s := w.serve()
	makefile := "\tall: x\n\t\tcc  x \t"
	draft := "\n\n\tx:\r\n\x1b[2J\ty\n"
	w.say(t, "open", `{:conversation/id "c-01"}`)
	got := w.run("act", "conversation/send", edn.MustMap(edn.K("conversation/id"), edn.Text("c-01"), edn.K("text"), edn.Text(draft),
		edn.K("model"), edn.MustMap(edn.K("cap/ref"), edn.K("mine/absent"))).String())
	require.NotEqual(t, 0, got.code, got.stdout)
	e := w.emulate(60, 20, nil, "chat", "c-01", "--model", "mine/spare")
	ready := "c-01 · mine/spare · /help"
	e.shows(ready, ">", "  →x:", `  \x1b[2J→y`)
	e.types("\r")
	e.shows(`  \x1b[2J    y`, "you said:", "    x:", "[2J    y", ready, ">")
	e.types("\x1b[200~" + strings.ReplaceAll(makefile, "\n", "\r") + "\x1b[201~")
	e.shows(ready, "> →all: x", "  →→cc  x →")
	e.types("\r")
	e.shows(">     all: x", "          cc  x", "you said:", "    x:", "[2J    y", ready, ">")
	e.types("\x1b[200~A\x1b[31mB\x1b]0;t\x07C\x1b[201~")
	e.shows(ready, `> A\x1b[31mB\x1b]0;t\x07C`)
	e.types("\x03\x03")
	e.shows("Ctrl-C again, or Ctrl-D, ends", ">")
	e.types("\x03")
	assert.Equal(t, 0, e.ends())
	var said []string
	for m := range w.say(t, "get", `{:conversation/id "c-01"}`).Key("messages").Elems() {
		if text, _ := m.Key("content").AsString(); m.Key("role").String() == ":user" {
			said = append(said, text)
		}
	}
	assert.Equal(t, []string{draft, makefile}, said)
	s.stop()
}

// NO_COLOR: no attribute is written; a dumb terminal gets plain lines and a prompt.
func TestChatPlainTerminals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, chatWorld()...)
	e := w.emulate(60, 20, []string{"NO_COLOR=1"}, "chat", "c-01")
	e.shows("new conversation c-01, which ends with the program: a",
		"daemon with a store keeps conversations (ferment serve)", "c-01 · llm/voice · /help", ">")
	e.types("Hello\r")
	e.shows("> Hello", "**a**ha", "c-01 · llm/voice · /help", ">")
	e.types("\x04")
	assert.Equal(t, 0, e.ends())
	assert.NotRegexp(t, `\x1b\[[0-9;]+m`, e.written())

	e = w.emulate(60, 20, []string{"TERM=dumb"}, "chat", "c-01")
	e.shows(" with a store keeps conversations (ferment serve)", ">")
	e.types("Hello\n")
	e.shows("> Hello", "**a**ha", ">")
	e.types("again\n")
	e.shows("you said: Hello", ">")
	e.types("long\n")
	e.shows("so far")
	e.types("\x03")
	e.shows("to send again: long", ">")
	e.types("/nothing\n")
	e.types("/quit\n")
	assert.Equal(t, 0, e.ends())
	assert.NotContains(t, e.written(), "\x1b")
	assert.Contains(t, e.written(), "there is no command /nothing")
}
