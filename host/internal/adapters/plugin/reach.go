package plugin

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/effects"
)

// Reach returns the isolation extended by the scopes of the effects of a plugin (FX-003). A process
// serves many calls, so its sandbox is the union of their scopes. Paths that do not exist are left
// out, except that a missing write path is replaced by its nearest existing directory below the
// root.
func (i Isolation) Reach(scopes policy.Scopes) Isolation {
	for _, scoped := range scopes {
		s := scoped.Scope
		switch scoped.Effect {
		case "fs/read":
			i.ReadPaths = joined(i.ReadPaths, reachable(&s, false))
		case "fs/write":
			i.WritePaths = joined(i.WritePaths, reachable(&s, true))
		case "process/run":
			i.WritePaths = joined(i.WritePaths, there(s.AllowCWD.V))
			i.Exec = joined(i.Exec, there(s.AllowCommands.V))
		case "net/http":
			if i.Network != confine.Ports {
				i.Network, i.Ports = confine.Ports, nil
			}
			ports := make([]uint16, 0, len(s.Ports.V)+1)
			for _, port := range s.Ports.V {
				ports = append(ports, uint16(port))
			}
			i.Ports = joined(i.Ports, append(ports, namePort))
		}
	}
	return i
}

// DatabaseReach lists the directories and TCP ports that the databases of a configuration need.
type DatabaseReach struct {
	// Dirs are the directories of database files and of sockets. Access to a file alone is not
	// enough, because a database engine creates others beside it.
	Dirs  []string
	Ports []uint16
}

// Databases returns the isolation extended by access to the databases.
func (i Isolation) Databases(d DatabaseReach) Isolation {
	i.WritePaths = joined(i.WritePaths, there(d.Dirs))
	if len(d.Ports) > 0 {
		if i.Network != confine.Ports {
			i.Network, i.Ports = confine.Ports, nil
		}
		i.Ports = joined(i.Ports, append(slices.Clone(d.Ports), namePort))
	}
	return i
}

// namePort is the port of DNS over TCP, which is used for responses too large for a datagram.
const namePort = 53

// reachable returns the directories and files that a scope allows. With writes, a file is replaced
// by its directory, because it may be replaced, and a missing path by its nearest existing
// directory.
func reachable(s *effects.Scope, writes bool) []string {
	var out []string
	for _, root := range s.Roots.V {
		for _, prefix := range s.Allow.V {
			path := filepath.Join(root, prefix)
			info, err := os.Stat(path)
			if writes && err == nil && !info.IsDir() {
				path = filepath.Dir(path)
			}
			for err != nil && writes && path != root && strings.HasPrefix(path, root) {
				path = filepath.Dir(path)
				_, err = os.Stat(path)
			}
			if err == nil {
				out = append(out, path)
			}
		}
	}
	return out
}

func there(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool {
		_, err := os.Stat(p)
		return err != nil
	})
}

// joined returns a followed by the elements of b that are not in a.
func joined[T comparable](a, b []T) []T {
	out := slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}
