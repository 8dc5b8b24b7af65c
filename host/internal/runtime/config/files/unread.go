package files

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	slashpath "path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/disk"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/syntax"
	"github.com/fermenthq/ferment/sdk/edn"
)

// unread warns about the files of a configuration directory that were not read.
type unread struct {
	*Set
	lockFile string
	advise   bool
	read     func(name string) bool
}

// WarnUnread warns about files of a configuration directory that are not read. read reports whether
// an expression reads the file with a path relative to the root. With advise it also warns about
// files and folders beside those that are read.
func (s *Set) WarnUnread(lockFile string, advise bool, read func(name string) bool) {
	(&unread{Set: s, lockFile: lockFile, advise: advise, read: read}).files()
}

// files warns about files that are not read because of their name or the name of their folder.
func (u *unread) files() {
	for _, name := range u.strays() {
		u.unreadFile(name, "", "move it into common or local, or include it: include "+diag.Quote(name)+" {}")
	}
	u.strayFolders()
	for _, folder := range []string{"common", "local"} {
		for _, name := range u.unreadIn(folder) {
			near := ""
			if strings.HasSuffix(name, ".json") && !isConfig(name) {
				near = slashpath.Join(folder, strings.TrimSuffix(name, ".json")+".hcl.json")
			}
			if near != "" && !u.read(slashpath.Join(folder, name)) {
				u.unreadFile(slashpath.Join(folder, name), near, "")
			}
		}
		entries, _ := os.ReadDir(filepath.Join(u.Root, folder))
		for _, e := range entries {
			inner := slashpath.Join(folder, e.Name())
			if !e.IsDir() || slices.Contains(language.Profiles(), e.Name()) ||
				!slices.ContainsFunc(u.unreadIn(inner), isConfig) {
				continue
			}
			near := diag.Nearest(e.Name(), language.Profiles())
			if near != "" {
				near = slashpath.Join(folder, near)
			}
			u.unreadFile(inner, near, "name a profile, or include the files")
		}
	}
}

// strayFolders warns about folders with configuration files whose name is similar to common or
// local, or is that of a profile, because profile folders belong into these two. A folder with its
// own ferment.hcl is another configuration.
func (u *unread) strayFolders() {
	if !u.advise {
		return
	}
	read := []string{"common", "local"}
	entries, _ := os.ReadDir(u.Root)
	for _, e := range entries {
		name := e.Name()
		full := filepath.Join(u.Root, name)
		if !e.IsDir() || slices.Contains(read, name) || exists(filepath.Join(full, DefaultFile)) ||
			!slices.ContainsFunc(u.unreadIn(name), isConfig) {
			continue
		}
		near := diag.Nearest(name, read)
		if slices.Contains(language.Profiles(), name) {
			near = slashpath.Join("local", name)
		}
		if near != "" {
			u.unreadFile(name, near, "")
		}
	}
}

// strays returns the files of the root that look like Ferment configuration and were not read; nil
// without advise.
func (u *unread) strays() (names []string) {
	if !u.advise {
		return nil
	}
	for _, name := range u.unreadIn(".") {
		full := filepath.Join(u.Root, name)
		if !isConfig(name) || full == u.lockFile || u.read(name) {
			continue
		}
		raw, err := disk.ReadConfig(name, full, syntax.MaxFileBytes)
		if err == nil && isOurs(name, raw) {
			names = append(names, name)
		}
	}
	return names
}

// isOurs reports whether all top-level blocks of a file are Ferment blocks. Other programs use HCL
// too, and some have blocks named locals and include.
func isOurs(name string, raw []byte) bool {
	var tops []string
	if strings.HasSuffix(name, ".json") {
		var root map[string]json.RawMessage
		_ = json.Unmarshal(raw, &root) // other values have no top-level names
		tops = slices.Sorted(maps.Keys(root))
	} else {
		for _, m := range syntax.Opening.FindAllSubmatch(raw, -1) {
			tops = append(tops, string(m[1]))
		}
	}
	own := language.Specification().Names("")
	shared := []string{"locals", "include"}
	return !slices.ContainsFunc(tops, func(t string) bool { return !slices.Contains(own, t) }) &&
		slices.ContainsFunc(tops, func(t string) bool { return !slices.Contains(shared, t) })
}

// unreadIn returns the names of the files of a folder that were not read.
func (u *unread) unreadIn(folder string) (names []string) {
	entries, _ := os.ReadDir(filepath.Join(u.Root, filepath.FromSlash(folder)))
	for _, e := range entries {
		if !e.IsDir() && !strings.HasPrefix(e.Name(), ".") && u.Sources[slashpath.Join(folder, e.Name())] == nil {
			names = append(names, e.Name())
		}
	}
	return names
}

func (u *unread) unreadFile(name, near, hint string) {
	u.report.Add(diag.Diagnostic{
		Type:     "config/unused",
		Severity: diag.SeverityWarning,
		Message:  diag.Quote(name) + " is not read",
		Range:    &diag.Range{File: name},
		Expected: edn.Text("common and local, and in them a folder for a profile, with files that end in .hcl or .hcl.json"),
		Nearest:  near,
		Hint:     cmp.Or(diag.DidYouMean(near), hint),
	})
}
