package conformance

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/fermenthq/ferment/sdk/confine"
)

// treeOf tracks the members of the session of pid, and the descendants that pid
// starts from now on in other sessions.
func treeOf(pid int) processTree { return processTree{pid: pid, mark: confine.MarkRunning(pid)} }

// tick is the unit of processor times in /proc, 1/100 s on every Linux that Go
// runs on.
const tick = 10 * time.Millisecond

// The fields of /proc/<pid>/stat after the name of the program.
const (
	statSession = 3
	statUser    = 11
	statSystem  = 12
	statStart   = 19
)

// members returns the load so far of each process of the tree, including
// zombies. ok is false if there is none.
func (t processTree) members() (all map[member]load, ok bool) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, false
	}
	all = map[member]load{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// The name in brackets may contain anything; the fields follow it.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || len(fields) <= statStart || !t.has(pid, fields[statSession]) {
			continue
		}
		m := member{pid: pid}
		m.start, _ = strconv.ParseUint(fields[statStart], 10, 64)
		user, _ := strconv.ParseInt(fields[statUser], 10, 64)
		system, _ := strconv.ParseInt(fields[statSystem], 10, 64)
		all[m] = load{ran: time.Duration(user+system) * tick, waited: waited(filepath.Dir(path))}
	}
	return all, len(all) > 0
}

func (t processTree) has(pid int, session string) bool {
	return session == strconv.Itoa(t.pid) || t.mark != 0 && confine.Mark(pid) == t.mark
}

// waited sums the time for which the threads of a process waited for a
// processor, 0 if the kernel does not count it. dir is the process in /proc.
func waited(dir string) time.Duration {
	paths, _ := filepath.Glob(dir + "/task/[0-9]*/schedstat")
	var sum time.Duration
	for _, path := range paths {
		text, _ := os.ReadFile(path)
		if fields := strings.Fields(string(text)); len(fields) > 1 { // ran, waited, slices
			ns, _ := strconv.ParseInt(fields[1], 10, 64)
			sum += time.Duration(ns)
		}
	}
	return sum
}
