package confine

import (
	"fmt"
	"path/filepath"
	"slices"
)

// Level is the extent of enforcement.
type Level string

// The levels; each includes the one before.
const (
	None   Level = "none"
	Limits Level = "limits" // resource limits, no new privileges
	Strict Level = "strict" // files, network, programs, signals
)

// Rank orders levels: a higher one enforces more. An unknown level has rank -1.
func (l Level) Rank() int { return slices.Index([]Level{None, Limits, Strict}, l) }

// Network is the network that a process may use besides unix sockets.
type Network string

// The networks. The zero value means Offline.
const (
	Offline  Network = "none"
	Loopback Network = "loopback" // TCP to the ports; addresses are not restricted
	Ports    Network = "ports"    // TCP to the ports, and UDP for names
)

// Policy describes what a process may do. The zero value has level none and
// allows everything.
type Policy struct {
	Level Level `json:"level"`
	// BestEffort accepts that parts which the machine does not support are not
	// enforced.
	BestEffort bool `json:"bestEffort,omitempty"`

	// ReadPaths may be read, WritePaths also written, created and removed,
	// including everything below them. They are absolute; a missing path in
	// ReadPaths is ignored, one in WritePaths is an error. The files that a
	// program needs to start (its loader, libraries, /dev/null and the like)
	// need not be listed.
	ReadPaths  []string `json:"readPaths,omitempty"`
	WritePaths []string `json:"writePaths,omitempty"`
	// ListPaths are directories in which, and below which, names may be listed,
	// but files not read. A missing one is ignored.
	ListPaths []string `json:"listPaths,omitempty"`
	// ExecPaths are programs, and directories of programs, that may be run and
	// read. SelfExec allows the started program to run itself again. With
	// neither, the process cannot start processes.
	ExecPaths []string `json:"execPaths,omitempty"`
	SelfExec  bool     `json:"selfExec,omitempty"`
	// Watch allows inotify. It reports the names that are created and removed in
	// any directory that the user may read.
	Watch bool `json:"watch,omitempty"`
	// KeepSession keeps the process and its descendants in its session, so that
	// killing the session kills all of them.
	KeepSession bool `json:"keepSession,omitempty"`
	// Attributes allows changes of the mode, owner and times of files, not only
	// in WritePaths. Without it a new file keeps the mode that it was created
	// with.
	Attributes bool `json:"attributes,omitempty"`
	// OpenAttributes allows the same for open files, even if open for reading
	// only. The system permits it for all files of the same user, so do not set
	// it for root.
	OpenAttributes bool `json:"openAttributes,omitempty"`

	Network Network `json:"network,omitempty"`
	// ConnectPorts and BindPorts are TCP ports; they need a network other than
	// none. Port 0 in BindPorts stands for a port that the system chooses.
	ConnectPorts []uint16 `json:"connectPorts,omitempty"`
	BindPorts    []uint16 `json:"bindPorts,omitempty"`

	Limits ResourceLimits `json:"limits"`
}

// ResourceLimits bound one process, and each of its children separately. Zero
// is no limit.
type ResourceLimits struct {
	// Memory bounds private writable memory, in bytes. At level strict with a
	// limit, other memory is rejected, except mapped files.
	Memory    uint64 `json:"memory,omitempty"`
	CPUTime   uint64 `json:"cpuTime,omitempty"`   // seconds of processor time, then SIGKILL
	OpenFiles uint64 `json:"openFiles,omitempty"` // descriptors
	Processes uint64 `json:"processes,omitempty"` // processes and threads of the user; not enforced for root
	FileSize  uint64 `json:"fileSize,omitempty"`  // bytes of a file that is written
	// Cores is a number of processors. It would need cgroup v2, which this
	// package does not use: a policy that sets it has a gap.
	Cores float64 `json:"cores,omitempty"`
}

// runs reports whether the process may start processes.
func (p Policy) runs() bool { return p.SelfExec || len(p.ExecPaths) > 0 }

func (p Policy) offline() bool { return p.Network == "" || p.Network == Offline }

// Validate returns an [Error] for a policy that contradicts itself.
func (p Policy) Validate() error {
	if p.Level != "" && p.Level.Rank() < 0 {
		return policyError("unknown level %q: expected none, limits or strict", p.Level)
	}
	switch p.Network {
	case "", Offline:
		if len(p.ConnectPorts)+len(p.BindPorts) > 0 {
			return policyError("connect ports %v and bind ports %v are set, but the network is none: expected loopback or ports",
				p.ConnectPorts, p.BindPorts)
		}
	case Loopback, Ports:
	default:
		return policyError("unknown network %q: expected none, loopback or ports", p.Network)
	}
	if slices.Contains(p.ConnectPorts, 0) {
		return policyError("connect port 0: expected 1 to 65535")
	}
	for _, list := range [][]string{p.ReadPaths, p.ListPaths, p.WritePaths, p.ExecPaths} {
		for _, path := range list {
			if !filepath.IsAbs(path) {
				return &Error{Layer: LayerPolicy, Path: path, Err: fmt.Errorf("it is not an absolute path")}
			}
		}
	}
	if p.Limits.Cores < 0 {
		return policyError("expected a share of at least 0 processors, found %g", p.Limits.Cores)
	}
	return nil
}

func policyError(format string, args ...any) error {
	return &Error{Layer: LayerPolicy, Err: fmt.Errorf(format, args...)}
}
