package suite

import (
	"path/filepath"

	"github.com/fermenthq/ferment/sdk/launch"
)

// passed are the variables that building and testing need and that say where
// things are on this machine. Nothing else of the environment reaches tests.
var passed = []string{
	"PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_CACHE_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"GOCACHE", "GOENV", "GOEXPERIMENT", "GOFLAGS", "GOINSECURE", "GOMODCACHE", "GONOPROXY", "GONOSUMDB", "GOPATH", "GOPRIVATE",
	"GOPROXY", "GOROOT", "GOSUMDB", "GOTOOLCHAIN", "GOWORK", "CC", "CXX", "CGO_ENABLED",
}

// defaultPath is where programs are if nobody says so.
const defaultPath = "/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin"

// Environment is the environment of tests: what the configuration sets, what it
// passes on by name, and the variables that building needs. base is a directory
// for the caches of a machine without a home.
func Environment(set map[string]string, pass []string, lookup func(string) (string, bool), base string) []string {
	vars := make(map[string]string)
	for name, v := range map[string]string{
		"PATH": defaultPath,
		"HOME": filepath.Join(base, "home"),
	} {
		if _, ok := lookup(name); !ok {
			vars[name] = v
		}
	}
	for name, v := range set {
		vars[name] = v
	}
	return launch.Environment(vars, append(append([]string(nil), passed...), pass...), lookup, nil)
}
