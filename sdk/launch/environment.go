package launch

import (
	"slices"
	"strings"
)

// Environment returns the complete environment of a child: the variables in pass
// as lookup returns them, those in set, and those in handshake; the later ones
// win. PLUGIN_* in pass and set are dropped: they belong to a handshake in which
// this process itself may take part, and a plugin that starts plugins would pass
// on its own certificate. The result is sorted by name and never nil.
func Environment(set map[string]string, pass []string, lookup func(string) (string, bool),
	handshake []string,
) []string {
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
