package launch

import (
	"slices"
	"strings"
)

// Environment builds the whole environment of a child: what the operator set
// and what was named for passing on, then what the handshake needs, which wins.
// Variables of a handshake in which this process may itself take part (PLUGIN_*
// and the names in handshake) are never passed on: a plugin that starts plugins
// would hand its own certificate down. The result is sorted by name and never
// nil.
func Environment(set map[string]string, pass []string, lookup func(string) (string, bool), handshake []string) []string {
	vars := map[string]string{}
	for _, name := range pass {
		if v, ok := lookup(name); ok {
			vars[name] = v
		}
	}
	for name, v := range set {
		vars[name] = v
	}
	for name := range vars {
		if strings.HasPrefix(name, "PLUGIN_") || name == "" || strings.ContainsAny(name, "=\x00") {
			delete(vars, name)
		}
	}
	for _, entry := range handshake {
		if name, v, ok := strings.Cut(entry, "="); ok {
			vars[name] = v
		}
	}
	env := make([]string, 0, len(vars))
	for name, v := range vars {
		env = append(env, name+"="+v)
	}
	slices.Sort(env)
	return env
}
