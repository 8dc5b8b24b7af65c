package launch

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stat is the part of /proc/<pid>/stat that tells who a process is.
type stat struct {
	pid     int
	state   byte
	group   int
	session int
	start   uint64 // clock ticks since boot; with pid the identity of a process
}

func (s stat) dead() bool { return s.state == 'Z' || s.state == 'X' || s.state == 'x' }

// parseStat reads one line of /proc/<pid>/stat. The second field is the name of
// the program in parentheses, which may itself hold spaces and parentheses.
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

// startTime identifies the process that has this number now; 0 if none has.
func startTime(pid int) uint64 {
	s, _ := statOf(pid)
	return s.start
}

// members lists the living processes of the sessions, by session.
func members(sessions func(int) bool) map[int][]stat {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	found := map[int][]stat{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		s, ok := statOf(pid)
		if ok && !s.dead() && sessions(s.session) {
			found[s.session] = append(found[s.session], s)
		}
	}
	return found
}

// killSession kills what is left of a session whose leader was reaped, again
// and again until nothing is found, because a process may fork between the
// look and the signal. It returns how many processes it had to kill.
func killSession(sid int, limit time.Duration) int {
	killed := map[int]bool{}
	empty := 0
	for end := time.Now().Add(limit); ; {
		left := members(func(s int) bool { return s == sid })[sid]
		for _, s := range left {
			if s.pid == sid {
				// The kernel gives a number away only when no process has it as
				// session: somebody new has it, so nothing of ours is left.
				return len(killed)
			}
		}
		if len(left) > 0 {
			empty = 0
		} else if empty++; empty < emptyLooks {
			continue
		}
		if len(left) == 0 || time.Now().After(end) {
			return len(killed)
		}
		for _, s := range left {
			if killOne(s) {
				killed[s.pid] = true
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// emptyLooks is how many looks in a row have to find nobody. One is not enough:
// a process that was listed may have forked and died before it was looked at.
const emptyLooks = 2

// killOne kills the process that s describes, and no other that got its number
// since: the descriptor pins the process, then its identity is compared.
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
	if !ok || now.start != s.start || now.session != s.session {
		return false
	}
	return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil
}

// reapSessions kills every member of the sessions of a dead host. A session
// whose leader has another start time than it was registered with is somebody
// else's, who got the number after ours ended.
func reapSessions(sessions map[int]uint64) {
	for sid, start := range sessions {
		if leader, ok := statOf(sid); ok && start != 0 && leader.start != start {
			delete(sessions, sid)
		}
	}
	ours := func(sid int) bool { _, ok := sessions[sid]; return ok }
	empty := 0
	for end := time.Now().Add(reapLimit); len(sessions) > 0; time.Sleep(time.Millisecond) {
		left := members(ours)
		if len(left) > 0 {
			empty = 0
		} else if empty++; empty == emptyLooks {
			return
		}
		if time.Now().After(end) {
			return
		}
		for _, session := range left {
			for _, s := range session {
				killOne(s)
			}
		}
	}
}

// reapLimit ends a reaper that faces a process which cannot be killed.
const reapLimit = 10 * time.Second
