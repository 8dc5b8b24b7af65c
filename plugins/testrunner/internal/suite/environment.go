package suite

import (
	"path/filepath"

	"github.com/fermenthq/ferment/sdk/launch"
)

// passed are the variables that building and testing need and that describe
// paths on this machine. Tests get no other variables of the environment.
var passed = []string{
	"PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_CACHE_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"GOCACHE", "GOENV", "GOEXPERIMENT", "GOFLAGS", "GOINSECURE", "GOMODCACHE", "GONOPROXY", "GONOSUMDB", "GOPATH", "GOPRIVATE",
	"GOPROXY", "GOROOT", "GOSUMDB", "GOTOOLCHAIN", "GOWORK", "CC", "CXX", "CGO_ENABLED",
}

// defaultPath is the PATH if none is set.
const defaultPath = "/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin"

// Environment returns the environment of tests as NAME=VALUE: the variables that the configuration
// sets, those that it passes on by name, and those that building needs. lookup returns the
// variables of this process. Without HOME the home directory is below base.
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
