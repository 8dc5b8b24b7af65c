package suite

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// HasGoModule reports whether dir belongs to a Go module: it or a directory
// above it has a go.mod or go.work.
func HasGoModule(dir string) bool {
	for {
		for _, name := range []string{"go.mod", "go.work"} {
			if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
				return true
			}
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return false
		}
		dir = parent
	}
}

// IsGoTest reports whether a command is `go test`.
func IsGoTest(command []string) bool {
	return len(command) >= 2 && filepath.Base(command[0]) == "go" && command[1] == "test"
}

// GoTest returns a `go test` command with -json, and with its package patterns replaced by
// packages, if any are given.
func GoTest(command, packages []string) []string {
	out := append([]string(nil), command[:2]...)
	rest := command[2:]
	if !slices.Contains(rest, "-json") && !slices.Contains(rest, "--json") {
		out = append(out, "-json")
	}
	var toBinary []string
	if i := slices.IndexFunc(rest, func(a string) bool { return a == "-args" || a == "--args" }); i >= 0 {
		rest, toBinary = rest[:i], rest[i:]
	}
	for _, arg := range rest {
		if len(packages) > 0 && isPattern(arg) {
			continue
		}
		out = append(out, arg)
	}
	return append(append(out, packages...), toBinary...)
}

// isPattern reports whether an argument is a package pattern that starts with a dot; other patterns
// cannot be distinguished from the values of flags.
func isPattern(arg string) bool {
	return arg == "." || arg == ".." || strings.HasPrefix(arg, "./") || strings.HasPrefix(arg, "../")
}
