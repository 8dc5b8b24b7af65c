//go:build linux

package launch

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/sdk/confine"
)

// The test binary is every process that the tests need: the reaper, misbehaving
// children, and a host that is killed.
const roleVar = "LAUNCH_TEST_ROLE"

// patience ends what hangs. It is long, because a busy machine may be slow.
const patience = 30 * time.Second

// atMost is the limit of something that must be fast. Under the race detector,
// which also slows the children and the reaper, it only ends what hangs.
func atMost(limit time.Duration) time.Duration {
	if raceDetector {
		return patience
	}
	return limit
}

// quickExit keeps the race detector from waiting a second at each exit.
const quickExit = "GORACE=atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	if role, ok := os.LookupEnv(roleVar); ok {
		act, known := roles[role]
		if !known {
			fmt.Fprintln(os.Stderr, "unknown role", role)
			os.Exit(99)
		}
		linger()
		os.Exit(act())
	}
	goleak.VerifyTestMain(m)
}

// linger keeps a role alive whose goroutines all block: without cgo and a
// running timer, the runtime ends such a process as deadlocked.
func linger() { time.AfterFunc(1<<63-1, func() {}) }

const shake = "1|1|unix|/run/x/1/plugin-dir1/plugin2|grpc|"

var roles = map[string]func() int{
	"exit-3":    func() int { return 3 },
	"env":       func() int { fmt.Println(strings.Join(os.Environ(), "\n")); return 0 },
	"panic":     func() int { fmt.Fprintln(os.Stderr, "before"); panic("the engine fell off") },
	"suicide":   func() int { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL); select {} },
	"until-eof": func() int { _, _ = io.Copy(io.Discard, os.Stdin); return 7 },
	"echo": func() int {
		_, _ = io.Copy(os.Stdout, os.Stdin)
		return 0
	},
	"session": func() int {
		sid, _ := unix.Getsid(0)
		fmt.Println(sid == os.Getpid(), syscall.Getpgrp() == os.Getpid())
		return 0
	},
	// Ignores everything but SIGKILL.
	"stubborn": func() int {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		fmt.Println("deaf")
		select {}
	},
	"on-term": func() int {
		terms := make(chan os.Signal, 1)
		signal.Notify(terms, syscall.SIGTERM)
		fmt.Println("listening")
		<-terms
		return 4
	},
	// Dies while a child of its own holds both output pipes.
	"leave-grandchild": func() int {
		grandchild("stubborn", false)
		return 5
	},
	// Prints much, and dies while a process in another session prints more.
	"last-words": func() int {
		cmd := self("babble")
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		for i := range 900 {
			fmt.Fprintf(os.Stderr, "word %03d of the last words\n", i)
		}
		out, err := cmd.StdoutPipe()
		if err != nil || cmd.Start() != nil {
			return 98
		}
		_, _ = bufio.NewReader(out).ReadString('\n')
		return 9
	},
	"babble": func() int {
		fmt.Println("here")
		for {
			if _, err := fmt.Fprintln(os.Stderr, "babble"); err != nil {
				return 1
			}
		}
	},
	// The same, in another process group of the session.
	"leave-other-group": func() int {
		grandchild("stubborn", true)
		return 6
	},
	// The same in another session.
	"leave-session": func() int {
		cmd := self("stubborn")
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if cmd.Start() != nil {
			return 98
		}
		fmt.Println("pid", cmd.Process.Pid)
		return 8
	},
	// Leaves descendants in other sessions: a child, and a grandchild
	// whose parent is gone. It ends then unless the environment has STAY.
	"escape": func() int {
		escapee("stubborn-orphan")
		_ = escapee("fork-again").Wait()
		if os.Getenv("STAY") == "" {
			return 8
		}
		fmt.Println("ready")
		select {}
	},
	"fork-again": func() int { escapee("stubborn-orphan"); return 0 },
	"stubborn-orphan": func() int {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		fmt.Println("pid", os.Getpid())
		_ = os.Stdin.Close()
		_ = os.Stdout.Close()
		_ = os.Stderr.Close()
		select {}
	},
	"host-escape": func() int { return hostOfEscaping(confine.Level(os.Getenv("LEVEL"))) },
	"keep-grandchildren": func() int {
		signal.Ignore(syscall.SIGTERM)
		grandchild("stubborn", false)
		grandchild("stubborn", true)
		fmt.Println("pid", os.Getpid())
		fmt.Println("ready")
		select {}
	},
	"host":             func() int { return host(true, false) },
	"host-no-reaper":   func() int { return host(false, false) },
	"host-stop-reaper": func() int { return host(true, true) },
	"noise-handshake": func() int {
		fmt.Println("starting up, please wait")
		fmt.Println(strings.Repeat("x", 200_000))
		fmt.Println(shake)
		fmt.Println("and one more thing")
		fmt.Println(shake)
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	},
	"endless-line": func() int {
		for chunk := []byte(strings.Repeat("y", 1<<20)); ; {
			if _, err := os.Stdout.Write(chunk); err != nil {
				return 1
			}
		}
	},
	"close-stdout": func() int {
		_ = os.Stdout.Close()
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	},
	"300-lines": func() int {
		for i := range 300 {
			fmt.Fprintln(os.Stderr, "line", i)
		}
		return 1
	},
}

func self(role string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{roleVar + "=" + role, quickExit}
	return cmd
}

// grandchild starts a process that holds the caller's output and prints its pid
// once it ignores signals.
func grandchild(role string, ownGroup bool) {
	cmd := self(role)
	out, err := cmd.StdoutPipe()
	if err != nil {
		os.Exit(97)
	}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: ownGroup}
	if cmd.Start() != nil {
		os.Exit(96)
	}
	_, _ = bufio.NewReader(out).ReadString('\n')
	fmt.Println("pid", cmd.Process.Pid)
}

// host starts a plugin with grandchildren and waits to be killed.
func host(reaped, killReaper bool) int {
	var reaper *Reaper
	if reaped {
		dir, err := os.MkdirTemp(os.Getenv("BASE"), "")
		if err != nil {
			fmt.Println(err)
			return 1
		}
		reaper = NewReaper(dir)
	}
	p, err := Start(Command{Path: "/proc/self/exe", Env: []string{roleVar + "=keep-grandchildren", quickExit}, Reaper: reaper})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if reaped {
		fmt.Println("pid", reaper.pid())
	}
	if killReaper {
		first := reaper.pid()
		_ = syscall.Kill(first, syscall.SIGKILL)
		for reaper.pid() == first {
			time.Sleep(time.Millisecond)
		}
		fmt.Println("pid", reaper.pid())
	}
	_, _ = io.Copy(os.Stdout, p.Stdout())
	return 2
}

// escapee starts a process in another session and forwards its output until it
// and all its descendants have closed it.
func escapee(role string) *exec.Cmd {
	cmd := self(role)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		os.Exit(95)
	}
	_, _ = io.Copy(os.Stdout, out)
	return cmd
}

// hostOfEscaping starts a plugin at a level of confinement and waits to be
// killed.
func hostOfEscaping(level confine.Level) int {
	c := escaping(level, "STAY=1")
	c.Reaper = NewReaper("")
	p, err := Start(c)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("pid", p.PID())
	_, _ = io.Copy(os.Stdout, p.Stdout())
	return 2
}

// escaping is a program whose descendants leave its session.
func escaping(level confine.Level, env ...string) Command {
	c := command("escape", env...)
	c.Policy = &confine.Policy{Level: level, BestEffort: true, SelfExec: true}
	return c
}

func command(role string, env ...string) Command {
	return Command{Path: "/proc/self/exe", Env: append([]string{roleVar + "=" + role, quickExit}, env...)}
}

func start(t *testing.T, c Command) *Process {
	t.Helper()
	p, err := Start(c)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = p.Kill()
		await(t, p.Settled(), patience, "end of process")
		closeAll([]*os.File{p.stdout, p.stderr})
	})
	return p
}

func await(t *testing.T, ch <-chan struct{}, limit time.Duration, what string) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(limit):
		require.FailNow(t, "no "+what+" within "+limit.String())
	}
}

// pids reads "pid N" lines until one says "ready" or the stream ends.
func pids(t *testing.T, r io.Reader) []int {
	t.Helper()
	var found []int
	lines := bufio.NewScanner(r)
	for lines.Scan() && lines.Text() != "ready" {
		text, ok := strings.CutPrefix(lines.Text(), "pid ")
		require.True(t, ok, lines.Text())
		pid, err := strconv.Atoi(text)
		require.NoError(t, err)
		found = append(found, pid)
	}
	return found
}

// gone waits for the end of a process that need not be a child. A zombie counts
// as ended: it only waits for its parent.
func gone(t *testing.T, pid int, limit time.Duration) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		require.ErrorIs(t, err, unix.ESRCH)
		return
	}
	defer func() { _ = unix.Close(fd) }()
	for end := time.Now().Add(limit); ; {
		left := time.Until(end)
		require.Positive(t, left, "process %d lives after %s", pid, limit)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if err == unix.EINTR {
			continue
		}
		require.NoError(t, err)
		if n == 1 {
			return
		}
	}
}

func alive(pid int) bool {
	s, ok := statOf(pid)
	return ok && !s.dead()
}

// shortDir is a directory for sockets: the names of t.TempDir are too long.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "fl")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
