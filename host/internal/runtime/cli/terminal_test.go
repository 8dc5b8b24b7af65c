package cli_test

import (
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/term"
)

// onTerminal runs a command whose outputs are both a terminal, and returns its
// output.
func (w *world) onTerminal(env []string, args ...string) (int, string) {
	w.t.Helper()
	mine, its := terminal(w.t)
	cmd := exec.Command(built.ferment, args...)
	cmd.Dir, cmd.Env = w.dir, append(w.env, env...)
	cmd.Stdout, cmd.Stderr = its, its
	require.NoError(w.t, cmd.Start())
	require.NoError(w.t, its.Close())
	seen, _ := io.ReadAll(mine) // the end of a terminal is an error
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode(), strings.ReplaceAll(string(seen), "\r\n", "\n")
}

// TestTerminal: colour only on a terminal, and not with NO_COLOR; progress by
// default only on a terminal and in text format (CLI-001).
func TestTerminal(t *testing.T) {
	t.Parallel()
	w := shop(t)
	code, seen := w.onTerminal(nil, "validate", "--config", "broken.hcl")
	assert.Equal(t, 1, code)
	assert.Contains(t, seen, "\x1b[1;31m")
	plain := regexp.MustCompile(`\x1b\[[0-9;]*m`).ReplaceAllString(seen, "")
	code, seen = w.onTerminal([]string{"NO_COLOR=1"}, "validate", "--config", "broken.hcl")
	assert.Equal(t, 1, code)
	assert.Equal(t, plain, seen, "colour is all that differs")

	_, seen = w.onTerminal([]string{"TERM=dumb"}, "validate", "--config", "broken.hcl")
	assert.Equal(t, plain, seen)

	code, seen = w.onTerminal(nil, "run", "hello.edn")
	assert.Equal(t, 0, code)
	assert.Regexp(t, `(?s)n0: asking text/template\n.*n0: accepted from text/template\n.*run completed after \d+ ms\nHello, world!\n$`, seen)
	for _, quiet := range [][]string{{"run", "hello.edn", "--progress", "none"}, {"run", "hello.edn", "-o", "edn"}} {
		code, seen = w.onTerminal(nil, quiet...)
		assert.Equal(t, 0, code)
		assert.Len(t, strings.Split(strings.TrimSpace(seen), "\n"), 1, "%s: %s", quiet, seen)
	}
}

// CLI-002: an interrupt, by signal or by key, ends a command that asks on the terminal, and
// leaves the terminal as it was.
func TestInterruptedQuestion(t *testing.T) {
	t.Parallel()
	w := shop(t)
	for name, interrupt := range map[string]func(p *os.Process, keys io.Writer) error{
		"signal": func(p *os.Process, _ io.Writer) error { return p.Signal(syscall.SIGINT) },
		"key":    func(_ *os.Process, keys io.Writer) error { _, err := keys.Write([]byte{3}); return err },
	} {
		mine, its := terminal(t)
		before, err := term.GetState(int(its.Fd()))
		require.NoError(t, err)
		cmd := exec.Command(built.ferment, "user", "add", "ann")
		cmd.Dir, cmd.Env = w.dir, w.env
		cmd.Stdin, cmd.Stdout, cmd.Stderr = its, its, its
		require.NoError(t, cmd.Start())
		shown := readTo(t, mine, "password: ")
		require.NoError(t, interrupt(cmd.Process, mine))
		_ = cmd.Wait()
		assert.Equal(t, 130, cmd.ProcessState.ExitCode(), "%s: %s", name, shown)
		after, err := term.GetState(int(its.Fd()))
		require.NoError(t, err)
		assert.Equal(t, before, after, name)
		require.NoError(t, its.Close())
	}
}

// A password typed on a terminal is asked for twice and not shown.
func TestTypedPassword(t *testing.T) {
	t.Parallel()
	w := answering(t, identified)
	w.serve()
	for _, c := range []struct {
		second string
		code   int
		says   string
	}{
		{"three other words", 2, "the two passwords differ"},
		{"three small words", 0, "ann (user/1): added"},
	} {
		mine, its := terminal(t)
		cmd := exec.Command(built.ferment, "user", "add", "ann")
		cmd.Dir, cmd.Env = w.dir, w.env
		cmd.Stdin, cmd.Stdout, cmd.Stderr = its, its, its
		require.NoError(t, cmd.Start())
		require.NoError(t, its.Close())
		shown := readTo(t, mine, "password: ")
		_, err := io.WriteString(mine, "three small words\r")
		require.NoError(t, err)
		shown += readTo(t, mine, "once more: ")
		_, err = io.WriteString(mine, c.second+"\r")
		require.NoError(t, err)
		rest, _ := io.ReadAll(mine) // the end of a terminal is an error
		_ = cmd.Wait()
		shown += string(rest)
		assert.Equal(t, c.code, cmd.ProcessState.ExitCode(), shown)
		assert.Contains(t, shown, c.says)
		assert.NotContains(t, shown, "three")
	}
}

// readTo reads from a terminal to a text and returns all that it read.
func readTo(t *testing.T, from io.Reader, text string) string {
	t.Helper()
	seen := ""
	for !strings.Contains(seen, text) {
		part := make([]byte, 100)
		n, err := from.Read(part)
		require.NoError(t, err, seen)
		seen += string(part[:n])
	}
	return seen
}

// TestInterruptedTwice: a second interrupt exits immediately.
func TestInterruptedTwice(t *testing.T) {
	w := busy(t)
	p := w.atWork()
	p.signal(syscall.SIGINT)
	p.must("a plugin is being stopped", 0, func(e event) bool { return e.word("to") == "draining" })
	p.signal(syscall.SIGINT)
	begun := time.Now()
	assert.Equal(t, 130, p.wait().code)
	assert.Less(t, time.Since(begun), time.Second)
	left := awaitNone(built.root, endLimit)
	require.Empty(t, left, describe(left))
}
