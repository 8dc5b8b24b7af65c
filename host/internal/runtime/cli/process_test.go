package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// processesUnder lists the processes whose program is below a directory, also
// of a deleted program; zombies do not count.
func processesUnder(dir string) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		exe, err := os.Readlink(filepath.Join("/proc", e.Name(), "exe"))
		if err == nil && strings.HasPrefix(exe, dir+string(filepath.Separator)) && !zombie(pid) {
			found = append(found, pid)
		}
	}
	return found
}

// childrenOf lists the children of a process that run a program.
func childrenOf(parent int, exe string) []int {
	return slices.DeleteFunc(processesUnder(filepath.Dir(exe)), func(pid int) bool {
		return parentOf(pid) != parent || !same(pid, exe)
	})
}

// parentOf returns the parent of a process, 0 if it is gone.
func parentOf(pid int) int {
	if fields := status(pid); len(fields) > 1 {
		parent, _ := strconv.Atoi(fields[1])
		return parent
	}
	return 0
}

// status returns the fields of /proc/PID/stat from the state on.
func status(pid int) []string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.Fields(after)
}

// zombie reports whether a process has exited.
func zombie(pid int) bool {
	fields := status(pid)
	return len(fields) == 0 || fields[0] == "Z" || fields[0] == "X"
}

// awaitNone waits until no process is left below a directory, or for the
// limit, and returns those that are left.
func awaitNone(dir string, limit time.Duration) []int {
	return awaitProcesses(limit, func() ([]int, bool) {
		left := processesUnder(dir)
		return left, len(left) == 0
	})
}

// endLimit ends a wait for the end of processes. How long they take depends on the
// machine.
const endLimit = 30 * time.Second

// left waits until no process of the world is left, or for the limit, and
// returns those that are left: hosts, their plugins and reapers. Each has the
// runtime directory in its environment or arguments. Processes without it are
// found at the end of all tests.
func (w *world) left(limit time.Duration) []int {
	w.t.Helper()
	begun := time.Now()
	pids := awaitProcesses(limit, func() ([]int, bool) {
		left := slices.DeleteFunc(processesUnder(built.root), func(pid int) bool { return !names(pid, w.rt) })
		return left, len(left) == 0
	})
	w.t.Logf("%d processes left after %s", len(pids), time.Since(begun).Round(time.Millisecond))
	return pids
}

// names reports whether the environment or the arguments of a process contain
// a directory.
func names(pid int, dir string) bool {
	for _, file := range []string{"environ", "cmdline"} {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if bytes.Contains(text, []byte(dir+"/")) || bytes.Contains(text, []byte(dir+"\x00")) {
			return true
		}
	}
	return false
}

// awaitProcesses polls the process table until look succeeds: the kernel sends
// no events about processes that are not children.
func awaitProcesses(limit time.Duration, look func() ([]int, bool)) []int {
	deadline := time.Now().Add(limit)
	for {
		pids, ok := look()
		if ok || time.Now().After(deadline) {
			return pids
		}
		<-time.After(5 * time.Millisecond)
	}
}

// describe formats processes with their parents, sessions and programs.
func describe(pids []int) string {
	var lines []string
	for _, pid := range pids {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		fields := append(status(pid), "", "", "", "")
		lines = append(lines, fmt.Sprintf("%d (%s, parent %s, session %s) %s", pid, fields[0], fields[1], fields[3],
			strings.ReplaceAll(strings.TrimRight(string(cmdline), "\x00"), "\x00", " ")))
	}
	return strings.Join(lines, "; ")
}

// same reports whether a process still runs the program that it was found
// with.
func same(pid int, exe string) bool {
	now, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && now == exe
}
