package plugins

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/sdk/confine"
	"github.com/fermenthq/ferment/sdk/contract"
)

// reach extends the isolation of a plugin by what the scopes of its effects allow
// (FX-003): the sandbox of a process that serves many calls is the union of their
// scopes. The grants of the isolation block are added.
func (r *Reader) reach(p *Plugin) {
	for _, scoped := range r.standing(p) {
		s := scoped.Scope
		switch scoped.Effect {
		case "fs/read":
			p.Isolation.ReadPaths = joined(p.Isolation.ReadPaths, reachable(&s, false))
		case "fs/write":
			p.Isolation.WritePaths = joined(p.Isolation.WritePaths, reachable(&s, true))
		case "process/run":
			p.Isolation.WritePaths = joined(p.Isolation.WritePaths, there(s.AllowCWD.V))
			p.Isolation.Exec = joined(p.Isolation.Exec, there(s.AllowCommands.V))
		case "net/http":
			if p.Isolation.Network != confine.Ports {
				p.Isolation.Network, p.Isolation.Ports = confine.Ports, nil
			}
			ports := slices.Clone(p.Isolation.Ports)
			for _, port := range append(slices.Clone(s.Ports.V), namePort) {
				if !slices.Contains(ports, uint16(port)) {
					ports = append(ports, uint16(port))
				}
			}
			p.Isolation.Ports = ports
		}
	}
}

// namePort is the port of DNS over TCP, which is used for responses too large for a datagram.
const namePort = 53

// standing returns the enabled scopes of the effects of a plugin's capabilities, as
// a union over the capabilities.
func (r *Reader) standing(p *Plugin) policy.Scopes {
	host := WrittenScopes(r.Root.Block("effects"))
	var out policy.Scopes
	for _, scoped := range host {
		if !scoped.Scope.Enabled.V {
			continue
		}
		if slices.ContainsFunc(p.Description.Capabilities,
			func(c contract.Capability) bool { return slices.Contains(c.Effects, scoped.Effect) }) {
			out = append(out, scoped)
		}
	}
	return out
}

// WrittenScopes returns the valid scopes of a block; invalid ones are reported
// elsewhere.
func WrittenScopes(s *decode.Section) policy.Scopes {
	var out policy.Scopes
	for _, x := range s.All("scope") {
		if scope, problems := contract.ParseScope(x.Label(), decode.ScopeValue(x)); len(problems) == 0 {
			out = policy.MeetAll(out, policy.Scopes{{Effect: x.Label(), Scope: scope}})
		}
	}
	return out
}

// reachable returns the directories and files that a scope allows. A missing path,
// or a file that may be replaced, is represented by its directory.
func reachable(s *contract.Scope, writes bool) []string {
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

func joined(a, b []string) []string {
	out := slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}
