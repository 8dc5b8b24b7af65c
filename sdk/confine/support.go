package confine

import (
	"errors"
	"fmt"
	"strings"
)

// Support describes what a machine can enforce.
type Support struct {
	System      string // as runtime.GOOS
	NoNewPrivs  bool
	Seccomp     bool // with a filter for this architecture
	LandlockABI int  // 0: none
	Rlimits     bool
	// Processes reports whether the number of processes can be limited: the
	// kernel exempts root.
	Processes bool
	// Marks reports whether processes started here can be marked, so that all
	// of their descendants are found; see [NewMark].
	Marks bool
}

// The first Landlock revisions that enforce a part.
const (
	abiTruncate    = 3  // truncation of files
	abiTCP         = 4  // ports of TCP
	abiScopes      = 6  // signals and abstract sockets
	abiUnixSockets = 9  // named unix sockets
	abiUDP         = 10 // ports of UDP
)

// Best returns the highest level that the machine can enforce.
func (s Support) Best() Level {
	switch {
	case s.NoNewPrivs && s.Rlimits && s.Seccomp && s.LandlockABI >= abiTruncate:
		return Strict
	case s.NoNewPrivs && s.Rlimits:
		return Limits
	}
	return None
}

// Signals reports whether signals to processes outside can be blocked.
func (s Support) Signals() bool { return s.LandlockABI >= abiScopes }

// AbstractSockets reports whether connections to abstract unix sockets can be
// blocked.
func (s Support) AbstractSockets() bool { return s.LandlockABI >= abiScopes }

// UnixSockets reports whether connections to named unix sockets can be blocked.
func (s Support) UnixSockets() bool { return s.LandlockABI >= abiUnixSockets }

// UDP reports whether UDP can be restricted to ports.
func (s Support) UDP() bool { return s.LandlockABI >= abiUDP }

// Gap is a requirement of a policy that a machine cannot enforce.
type Gap struct {
	Layer Layer
	Text  string // what cannot be enforced and what is missing
}

// Check returns the parts of the policy that the machine cannot enforce, nil if it
// can enforce all of them.
func (p Policy) Check(s Support) []Gap {
	var gaps []Gap
	lacks := func(bad bool, layer Layer, format string, args ...any) {
		if bad {
			gaps = append(gaps, Gap{layer, fmt.Sprintf(format, args...)})
		}
	}
	rank := p.Level.Rank()
	if rank >= Limits.Rank() {
		lacks(!s.Rlimits, LayerLimits, "resource limits are not supported on %s", s.System)
		lacks(!s.NoNewPrivs, LayerPrivileges, "privileges cannot be dropped permanently on %s", s.System)
		// A process without children of its own cannot exceed the number: the
		// filter rejects new ones.
		alone := p.Level == Strict && s.Seccomp && !p.runs()
		lacks(p.Limits.Processes > 0 && !s.Processes && !alone, LayerLimits,
			"the kernel does not limit the processes of root: run the host as another user")
		lacks(p.Limits.Cores > 0, LayerGroups,
			"a share of the processors needs cgroup v2 limits, which this build does not set")
	}
	if p.Level == Strict {
		switch {
		case s.LandlockABI == 0:
			lacks(true, LayerFiles, "the kernel has no Landlock: files and ports cannot be restricted")
		case s.LandlockABI < abiTruncate:
			lacks(true, LayerFiles, "Landlock has revision %d, expected at least %d, which protects files from truncation",
				s.LandlockABI, abiTruncate)
		case s.LandlockABI < abiTCP && !p.offline():
			lacks(true, LayerFiles, "Landlock has revision %d, expected at least %d, which restricts ports", s.LandlockABI,
				abiTCP)
		}
		lacks(!s.Seccomp, LayerCalls, "system calls cannot be filtered on this kernel and architecture")
	}
	return gaps
}

// Weakness is something that stays open although the policy is enforced.
type Weakness struct {
	Name string // stable name, such as "udp-open"
	Text string
}

// Weaknesses lists what stays open on the machine under the policy: by its
// nature or because the kernel is too old. A policy that is not strict leaves
// everything open, which is one weakness.
func (p Policy) Weaknesses(s Support) []Weakness {
	if p.Level != Strict || s.Best() != Strict {
		level := p.Level
		if level == "" || level.Rank() > s.Best().Rank() {
			level = s.Best()
		}
		return []Weakness{{"not-strict",
			fmt.Sprintf("at level %s the process may read, write, run and reach whatever its user may", level)}}
	}
	var found []Weakness
	open := func(is bool, name, text string) {
		if is {
			found = append(found, Weakness{name, text})
		}
	}
	open(!p.offline(), "port-only", "TCP is restricted to ports, not to addresses")
	open(p.Network == Ports && !s.UDP(), "udp-open", "UDP is not restricted to ports (Landlock revision 10 would)")
	open(!s.Signals(), "signals-open", "processes of the same user can be signalled (Landlock revision 6 would refuse)")
	open(!s.AbstractSockets(), "abstract-sockets-open",
		"abstract unix sockets can be reached (Landlock revision 6 would refuse)")
	open(!s.UnixSockets(), "unix-sockets-open",
		"unix sockets that the user may open can be reached, "+
			"also those of services that start programs on request (Landlock revision 9 would refuse)")
	open(p.Attributes, "attributes-open", "modes, owners and times of files of the same user can be changed")
	open(p.runs() && !s.Processes, "processes-open", "the number of processes and threads is not limited for root")
	open(!p.runs() && !s.Processes, "threads-open", "the number of threads is not limited for root")
	return found
}

// gapError is the error of a policy that the machine cannot enforce; nil
// without gaps.
func gapError(gaps []Gap) error {
	if len(gaps) == 0 {
		return nil
	}
	words := make([]string, len(gaps))
	for i, g := range gaps {
		words[i] = g.Text
	}
	return &Error{Layer: gaps[0].Layer, Err: errors.New(strings.Join(words, "; "))}
}

// ready checks the policy before anything is applied.
func (p Policy) ready(s Support) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if p.BestEffort {
		return nil
	}
	return gapError(p.Check(s))
}
