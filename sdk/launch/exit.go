package launch

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// Exit describes how a process ended.
type Exit struct {
	Code   int            // exit status; -1 if a signal ended it
	Signal syscall.Signal // 0 if it exited by itself
	Core   bool           // the kernel wrote a core file
	User   time.Duration  // processor time
	System time.Duration
	MaxRSS int64         // bytes
	Lived  time.Duration // from start to end
}

// Clean reports whether the process ended with status 0.
func (e Exit) Clean() bool { return e.Signal == 0 && e.Code == 0 }

// String returns a short form: "exit status 3", "killed by SIGKILL".
func (e Exit) String() string {
	if e.Signal == 0 {
		return fmt.Sprintf("exit status %d", e.Code)
	}
	s := "killed by " + signalName(e.Signal)
	if e.Core {
		s += " (core dumped)"
	}
	return s
}

func exitOf(state *os.ProcessState, lived time.Duration) Exit {
	e := Exit{Code: state.ExitCode(), User: state.UserTime(), System: state.SystemTime(), Lived: lived}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		e.Code, e.Signal, e.Core = -1, ws.Signal(), ws.CoreDump()
	}
	e.MaxRSS = maxRSS(state)
	return e
}

// Report describes a process that ended or did not start, with enough facts for
// one diagnostic.
type Report struct {
	PID     int
	Exited  bool
	Exit    Exit     // valid if Exited
	Killed  bool     // it was ended by Kill
	Output  string   // the first bytes of standard output except the handshake
	Noise   int64    // total bytes of such output
	Tail    []string // the last lines of standard error and output
	Panic   []string // the head of a Go panic or runtime failure, if one was seen
	Escaped int      // processes of the session that were killed after the exit
}

// String returns one line without the tail.
func (r Report) String() string {
	var b strings.Builder
	switch {
	case r.PID == 0:
		b.WriteString("not started")
	case r.Exited:
		b.WriteString(r.Exit.String())
	default:
		b.WriteString("still running")
	}
	switch {
	case len(r.Panic) > 0:
		fmt.Fprintf(&b, "; %s", r.Panic[0])
	case r.Exited && !r.Exit.Clean() && len(r.Tail) > 0:
		fmt.Fprintf(&b, "; last line: %s", Clip(lastWord(r.Tail), 200))
	}
	if r.Output != "" {
		fmt.Fprintf(&b, "; printed %q on standard output", Clip(r.Output, 80))
		if r.Noise > int64(len(r.Output)) {
			fmt.Fprintf(&b, " (%d bytes in all)", r.Noise)
		}
	}
	return b.String()
}

// lastWord returns the last informative line. Node ends with its version, below
// the stack of the error.
func lastWord(lines []string) string {
	last := lines[len(lines)-1]
	if !strings.HasPrefix(last, "Node.js v") {
		return last
	}
	for i := len(lines) - 2; i >= 0; i-- {
		if l := lines[i]; l != "" && l != "}" && !strings.HasPrefix(l, " ") {
			return l
		}
	}
	return last
}

// Clip shortens s to at most n bytes without cutting a character in two.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "..."
}
