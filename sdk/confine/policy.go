package confine

import (
	"fmt"
	"path/filepath"
	"slices"
)

// Level is how much is enforced.
type Level string

// The levels, each with everything of the one before it.
const (
	None   Level = "none"
	Limits Level = "limits" // resource limits, no new privileges
	Strict Level = "strict" // files, network, programs, signals
)

// Rank orders levels: a higher one enforces more. An unknown level has rank -1.
func (l Level) Rank() int { return slices.Index([]Level{None, Limits, Strict}, l) }

// Network is what a process may reach besides unix sockets.
type Network string

// The networks. The zero value means Offline.
const (
	Offline  Network = "none"
	Loopback Network = "loopback" // TCP to the ports; their addresses are not held
	Ports    Network = "ports"    // TCP to the ports, and UDP for names
)

// Policy is what a process may do. The zero value allows everything: its level
// is none.
type Policy struct {
	Level Level `json:"level"`
	// BestEffort accepts that parts which the machine lacks are not held.
	BestEffort bool `json:"bestEffort,omitempty"`

	// ReadPaths may be read, WritePaths also written, made and removed, with all
	// that lies below them. Absolute paths; one of ReadPaths that does not exist
	// is left out, one of WritePaths is an error. What a program needs to start
	// (its loader, libraries, /dev/null and the like) need not be named.
	ReadPaths  []string `json:"readPaths,omitempty"`
	WritePaths []string `json:"writePaths,omitempty"`
	// ListPaths are directories in which, and below which, names may be listed;
	// what the files hold is not part of that. One that does not exist is left out.
	ListPaths []string `json:"listPaths,omitempty"`
	// ExecPaths are programs, and directories of programs, that may be run, and
	// read. SelfExec allows the program that is started to run itself again.
	// With neither, the process can start no process at all.
	ExecPaths []string `json:"execPaths,omitempty"`
	SelfExec  bool     `json:"selfExec,omitempty"`
	// KeepSession keeps the process, and all that it starts, in the session that
	// it is in: whoever ends the session ends all of them.
	KeepSession bool `json:"keepSession,omitempty"`
	// Attributes allows changing the mode, the owner and the times of files.
	// Nothing holds that to WritePaths. Without it a new file has the mode that
	// it was made with.
	Attributes bool `json:"attributes,omitempty"`
	// OpenAttributes allows that of files that are open, also for reading only.
	// The system lets a process do it to files of its own user, so that root had
	// better not.
	OpenAttributes bool `json:"openAttributes,omitempty"`

	Network Network `json:"network,omitempty"`
	// ConnectPorts and BindPorts are TCP ports; they need a network other than
	// none. Port 0 in BindPorts is any port that the system chooses.
	ConnectPorts []uint16 `json:"connectPorts,omitempty"`
	BindPorts    []uint16 `json:"bindPorts,omitempty"`

	Limits ResourceLimits `json:"limits"`
}

// ResourceLimits bound one process, and each of its children by itself. Zero is
// no limit.
type ResourceLimits struct {
	// Memory is in bytes of private writable memory. At level strict there is no
	// other kind under a limit, but for files that are mapped.
	Memory    uint64 `json:"memory,omitempty"`
	CPUTime   uint64 `json:"cpuTime,omitempty"`   // seconds of processor time, then SIGKILL
	OpenFiles uint64 `json:"openFiles,omitempty"` // descriptors
	Processes uint64 `json:"processes,omitempty"` // processes and threads of the user; not held for root
	FileSize  uint64 `json:"fileSize,omitempty"`  // bytes of a file that is written
	// Cores is a share of processors. Only cgroup v2 could hold it, which this
	// package does not use: a policy that sets it has a gap.
	Cores float64 `json:"cores,omitempty"`
}

// runs says that the process may start processes.
func (p Policy) runs() bool { return p.SelfExec || len(p.ExecPaths) > 0 }

func (p Policy) offline() bool { return p.Network == "" || p.Network == Offline }

// Validate reports a policy that contradicts itself, as an [Error].
func (p Policy) Validate() error {
	if p.Level != "" && p.Level.Rank() < 0 {
		return policyError("level %q is none of none, limits, strict", p.Level)
	}
	switch p.Network {
	case "", Offline:
		if len(p.ConnectPorts)+len(p.BindPorts) > 0 {
			return policyError("ports are named, but the network is none")
		}
	case Loopback, Ports:
	default:
		return policyError("network %q is none of none, loopback, ports", p.Network)
	}
	if slices.Contains(p.ConnectPorts, 0) {
		return policyError("port 0 cannot be connected to")
	}
	for _, list := range [][]string{p.ReadPaths, p.ListPaths, p.WritePaths, p.ExecPaths} {
		for _, path := range list {
			if !filepath.IsAbs(path) {
				return &Error{Layer: LayerPolicy, Path: path, Err: fmt.Errorf("it is not an absolute path")}
			}
		}
	}
	if p.Limits.Cores < 0 {
		return policyError("a share of %g processors", p.Limits.Cores)
	}
	return nil
}

func policyError(format string, args ...any) error {
	return &Error{Layer: LayerPolicy, Err: fmt.Errorf(format, args...)}
}
