package launch

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/sdk/confine"
)

// stat is the part of /proc/<pid>/stat that identifies a process.
type stat struct {
	pid     int
	state   byte
	group   int
	session int
	start   uint64 // clock ticks since boot; with pid it identifies a process
}

func (s stat) dead() bool { return s.state == 'Z' || s.state == 'X' || s.state == 'x' }

// parseStat parses one line of /proc/<pid>/stat. The second field is the name
// of the program in parentheses, which may itself contain spaces and
// parentheses.
func parseStat(line []byte) (stat, bool) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 1 || end < open {
		return stat{}, false
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(line[:open])))
	if err != nil || pid <= 0 {
		return stat{}, false
	}
	// Fields from the third on: state ppid pgrp session ... starttime (22nd).
	fields := bytes.Fields(line[end+1:])
	if len(fields) < 20 || len(fields[0]) != 1 {
		return stat{}, false
	}
	group, err1 := strconv.Atoi(string(fields[2]))
	session, err2 := strconv.Atoi(string(fields[3]))
	start, err3 := strconv.ParseUint(string(fields[19]), 10, 64)
	if err1 != nil || err2 != nil || err3 != nil {
		return stat{}, false
	}
	return stat{pid: pid, state: fields[0][0], group: group, session: session, start: start}, true
}

func statOf(pid int) (stat, bool) {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, false
	}
	return parseStat(line)
}

// startTime identifies the current process with this pid; 0 if none.
func startTime(pid int) uint64 {
	s, _ := statOf(pid)
	return s.start
}

// processes lists the live processes of the machine.
func processes() []stat {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var found []stat
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if s, ok := statOf(pid); ok && !s.dead() {
			found = append(found, s)
		}
	}
	return found
}

// owned reports whether a process belongs to the family. A process that is
// older than the family cannot carry its mark, which saves most of the reads.
func (f family) owned(s stat) bool {
	if s.session == f.session {
		return true
	}
	return f.mark != 0 && s.start >= f.start && confine.Mark(s.pid) == f.mark
}

// endFamilies kills every member of the families repeatedly until none is found,
// because a process may fork between the scan and the signal. It returns the
// number of processes that it killed.
func endFamilies(families []family, limit time.Duration) int {
	families = slices.Clone(families)
	killed := map[int]bool{}
	empty := 0
	for end := time.Now().Add(limit); len(families) > 0; time.Sleep(time.Millisecond) {
		for i := range families {
			// A leader with another start time means that the pid was reused,
			// which is possible only when the session has no members.
			if leader, ok := statOf(families[i].session); ok && leader.start != families[i].start {
				families[i].session = 0
			}
		}
		left := slices.DeleteFunc(processes(), func(s stat) bool {
			return s.session <= 0 || !slices.ContainsFunc(families, func(f family) bool { return f.owned(s) })
		})
		if len(left) > 0 {
			empty = 0
		} else if empty++; empty == emptyLooks {
			break
		}
		if time.Now().After(end) {
			break
		}
		for _, s := range left {
			if killOne(s) {
				killed[s.pid] = true
			}
		}
	}
	return len(killed)
}

// emptyLooks is the number of consecutive scans that must find no process. One
// is not enough: a listed process may have forked and died before it was
// examined.
const emptyLooks = 2

// killOne kills the process that s describes, and no other that reused its pid:
// the descriptor pins the process, then its identity is compared.
func killOne(s stat) bool {
	fd, err := unix.PidfdOpen(s.pid, 0)
	switch {
	case errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM):
		return syscall.Kill(s.pid, syscall.SIGKILL) == nil // a kernel before 5.3
	case err != nil:
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	now, ok := statOf(s.pid)
	if !ok || now.start != s.start {
		return false
	}
	return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil
}
