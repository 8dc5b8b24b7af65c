package cli_test

import (
	"io"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

	code, seen = w.onTerminal(nil, "run", "hello.edn")
	assert.Equal(t, 0, code)
	assert.Regexp(t, `(?s)n0: asking text/template\n.*n0: accepted from text/template\n.*run completed after \d+ ms\nHello, world!\n$`, seen)
	for _, quiet := range [][]string{{"run", "hello.edn", "--progress", "none"}, {"run", "hello.edn", "-o", "edn"}} {
		code, seen = w.onTerminal(nil, quiet...)
		assert.Equal(t, 0, code)
		assert.Len(t, strings.Split(strings.TrimSpace(seen), "\n"), 1, "%s: %s", quiet, seen)
	}
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
