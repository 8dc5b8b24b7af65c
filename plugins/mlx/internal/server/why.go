package server

import (
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/fermenthq/ferment/sdk/launch"
)

// The following phrases occur in the last output of servers. They are in lower case.

// memoryWords indicate that memory ran out.
var memoryWords = []string{
	"out of memory", "outofmemory", "memoryerror", "cannot allocate memory", "insufficient memory", "std::bad_alloc",
	"failed to allocate", "unable to allocate", "not enough memory",
}

// machineWords indicate that the server cannot run on this machine: a library
// is missing, or the architecture is wrong.
var machineWords = []string{
	"modulenotfounderror", "importerror", "no module named", "cannot import name", "library not loaded",
	"error while loading shared libraries", "symbol not found", "exec format error", "bad cpu type", "wrong elf class",
	"unsupported platform", "platform is not supported", "not supported on this platform", "requires macos", "requires apple silicon",
	"no metal device", "metal is not available", "command not found", "illegal instruction",
}

var portWords = []string{"address already in use", "eaddrinuse", "only one usage of each socket address"}

// Memory reports whether an error text of a server indicates that memory ran
// out.
func Memory(text string) bool { return memoryText(text) }

func memoryText(text string) bool { return holds(text, memoryWords) }

func holds(text string, words []string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}

// memory reports whether a process ended because memory ran out: its output
// says so, or the kernel killed it and counts one more out-of-memory kill.
func (s *Server) memory(exit launch.Exit, last []string) bool {
	if !exit.Clean() && slices.ContainsFunc(last, memoryText) {
		return true
	}
	if exit.Signal != syscall.SIGKILL || s.proc.Killed() || !s.killsTold {
		return false
	}
	now, ok := launch.KilledForMemory()
	return ok && now > s.killed
}

// impossible reports whether a process ended because it cannot run here at all.
func impossible(exit launch.Exit, last []string) bool {
	return exit.Signal == syscall.SIGILL || !exit.Clean() && cannot(last) != ""
}

// cannot returns the last line that explains why a server cannot run here.
func cannot(last []string) string {
	for _, line := range slices.Backward(last) {
		if holds(line, machineWords) {
			return launch.Clip(printable(strings.TrimSpace(line)), 200)
		}
	}
	return ""
}

func taken(last []string) bool {
	return slices.ContainsFunc(last, func(line string) bool { return holds(line, portWords) })
}

// printable returns a valid text without terminal control characters.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\t' {
			return r
		}
		return -1
	}, strings.ToValidUTF8(text, "\uFFFD"))
}
