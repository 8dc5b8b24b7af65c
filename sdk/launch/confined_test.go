//go:build linux

package launch

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/confine"
)

func confined(role string) Command {
	c := command(role)
	c.Path, _ = os.Executable()
	c.Policy = &confine.Policy{Level: confine.Strict}
	return c
}

// ISO-002: a process with a policy is the program itself: its pid, session,
// environment and three descriptors are as without a policy.
func TestConfinedProcess(t *testing.T) {
	c := confined("session")
	p := start(t, c)
	text, err := io.ReadAll(p.Stdout())
	require.NoError(t, err)
	assert.Equal(t, "true true\n", string(text))
	await(t, p.Done(), patience, "exit")
	assert.True(t, p.Exit().Clean())

	c = confined("env")
	c.Env = append(c.Env, "A=1")
	p = start(t, c)
	text, err = io.ReadAll(p.Stdout())
	require.NoError(t, err)
	assert.ElementsMatch(t, c.Env, strings.Split(strings.TrimSpace(string(text)), "\n"))
}

// OPS-010: when memory runs out, the kernel kills a plugin before its host, at
// every level of confinement.
func TestConfinedProcessGoesFirst(t *testing.T) {
	badness := func(pid int) int {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/oom_score_adj")
		require.NoError(t, err)
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		require.NoError(t, err)
		return n
	}
	for _, level := range []confine.Level{confine.None, confine.Strict} {
		c := confined("until-eof")
		c.Policy = &confine.Policy{Level: level}
		assert.Greater(t, badness(start(t, c).PID()), badness(os.Getpid()), level)
	}
}

// ISO-001: the policy is enforced: the process cannot start a child.
func TestConfinedProcessHasNoChildren(t *testing.T) {
	p := start(t, confined("leave-session"))
	await(t, p.Done(), patience, "exit")
	assert.Equal(t, 98, p.Exit().Code)
}

// SUP-001, SUP-008: it still dies with the thread that started it, sees the end
// of its input, and is stopped by signals.
func TestConfinedProcessIsWatched(t *testing.T) {
	p := start(t, confined("until-eof"))
	require.NoError(t, p.CloseStdin())
	await(t, p.Done(), patience, "exit")
	assert.Equal(t, 7, p.Exit().Code)

	p = start(t, confined("stubborn"))
	buf := make([]byte, 16)
	_, err := p.Stdout().Read(buf)
	require.NoError(t, err)
	require.NoError(t, p.Kill())
	await(t, p.Done(), patience, "exit")
	assert.Equal(t, syscall.SIGKILL, p.Exit().Signal)
	assert.True(t, p.Killed())
}

// A failed trampoline is an error of the start, with the layer at fault, and no
// process is left.
func TestConfinementFails(t *testing.T) {
	c := confined("exit-3")
	c.Policy.WritePaths = []string{filepath.Join(t.TempDir(), "absent")}
	_, err := Start(c)
	var typed *confine.Error
	require.ErrorAs(t, err, &typed)
	assert.Equal(t, confine.LayerFiles, typed.Layer)
	assert.ErrorContains(t, err, "absent")
	assert.ErrorIs(t, err, syscall.ENOENT)

	c = confined("exit-3")
	c.Path = filepath.Join(t.TempDir(), "nothing")
	_, err = Start(c)
	require.ErrorAs(t, err, &typed)
	assert.Equal(t, confine.LayerProgram, typed.Layer)
}

// LOCK-004: a script that is replaced between its inspection and its start does
// not keep running.
func TestExchangedScript(t *testing.T) {
	path := filepath.Join(t.TempDir(), "script")
	write := func(text string) {
		require.NoError(t, os.WriteFile(path+".new", []byte(text), 0o755))
		require.NoError(t, os.Rename(path+".new", path))
	}
	write("#!/bin/sh\nexec cat\n")
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	c := Command{Path: path, Program: f, Policy: &confine.Policy{Level: confine.Strict}}
	p := start(t, c)
	require.NoError(t, p.Kill())
	await(t, p.Settled(), patience, "end")
	write("#!/bin/sh\nread line\n")
	_, err = Start(c)
	assert.ErrorContains(t, err, "replaced")
}

// BenchmarkStart measures the cost of the trampoline.
func BenchmarkStart(b *testing.B) {
	self, err := os.Executable()
	require.NoError(b, err)
	for name, policy := range map[string]*confine.Policy{
		"direct": nil, "trampoline": {Level: confine.None}, "limits": {Level: confine.Limits}, "strict": {Level: confine.Strict},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				p, err := Start(Command{Path: self, Env: []string{roleVar + "=exit-3", quickExit}, Policy: policy})
				require.NoError(b, err)
				<-p.Settled()
				closeAll([]*os.File{p.stdout, p.stderr})
			}
		})
	}
}
