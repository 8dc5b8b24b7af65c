package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	slashpath "path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/hashicorp/hcl/v2"
)

// MaxIncludeDepth is the maximum depth of nested includes (HCL-016).
const MaxIncludeDepth = 8

// gatherer finds and reads the files of a configuration in load order, each
// once, and builds the tree of each.
type gatherer struct {
	*loader
	real     string          // root, symbolic links resolved
	seen     map[string]bool // files by path, symbolic links resolved
	visited  map[string]bool // directories whose .env files were read
	under    []string        // stack of including files, symbolic links resolved
	names    []string        // printed names of under
	trees    []*node         // in load order
	total    int             // bytes read
	profiled []*Source       // files that may contain ferment.profile
}

// Find returns the default configuration in a directory: ferment.hcl, its JSON
// form, or the directory config.
func Find(dir string) string {
	for _, name := range []string{DefaultFile, DefaultFile + ".json", DefaultDirectory} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return filepath.Join(dir, name)
		}
	}
	return filepath.Join(dir, DefaultFile)
}

// gather reads and merges all files of the configuration at a path; nil if no file
// could be read.
func (l *loader) gather(full string) *node {
	g := &gatherer{loader: l, seen: map[string]bool{}, visited: map[string]bool{}}
	info, err := os.Stat(full)
	if err == nil && info.IsDir() {
		l.config.Root = full
		g.directory()
	} else {
		l.config.Root = filepath.Dir(full)
		g.resolveRoot()
		g.variablesOf(l.config.Root)
		if g.ending(full) {
			g.load(full, nil)
		}
		if n := len(l.config.Files); n > 0 {
			g.profiled = l.config.Files[n-1:] // included files come before it
		}
		l.config.Profile = l.profile(g.trees)
	}
	g.number()
	g.misplacedProfile()
	if len(g.trees) == 0 {
		return nil
	}
	tree := g.trees[0]
	for _, t := range g.trees[1:] {
		tree = merge(tree, t)
	}
	return tree
}

// ending rejects a file whose extension does not identify its format (HCL-012).
func (g *gatherer) ending(full string) bool {
	name := filepath.Base(full)
	if strings.HasSuffix(name, ".hcl") || strings.HasSuffix(name, ".hcl.json") || !isFile(full) {
		return true // reading it reports why it is not a regular file
	}
	near := strings.TrimSuffix(name, filepath.Ext(name)) + ".hcl"
	if filepath.Ext(name) == ".json" {
		near += ".json"
	}
	g.report.add(Diagnostic{
		Type:     "config/include",
		Message:  fmt.Sprintf("file %s ends neither in .hcl nor in .hcl.json", quote(name)),
		Range:    &Range{File: name},
		Expected: edn.Text("a file that ends in .hcl or .hcl.json, or a directory"),
		Hint:     "rename it, such as to " + near,
	})
	return false
}

func (g *gatherer) resolveRoot() {
	real, err := filepath.EvalSymlinks(g.config.Root)
	if err != nil {
		real = g.config.Root
	}
	g.real = real
}

// directory reads the files of a directory in the order of HCL-005. ferment.hcl
// and common determine the profile, and the profile the other files.
func (g *gatherer) directory() {
	g.resolveRoot()
	g.variablesOf(g.config.Root)
	for _, name := range []string{DefaultFile, DefaultFile + ".json"} {
		if full := filepath.Join(g.config.Root, name); exists(full) {
			g.load(full, nil)
		}
	}
	g.folder("common")
	g.profiled = slices.Clone(g.config.Files)
	g.config.Profile = g.profile(g.trees)
	for _, name := range []string{"common/prod", "local", "local/prod", "common/" + g.config.Profile,
		"local/" + g.config.Profile} {
		g.folder(name)
	}
	if len(g.config.Files) == 0 && len(g.report.list) == 0 {
		g.report.add(Diagnostic{
			Type:    "config/include",
			Message: fmt.Sprintf("directory %s holds no configuration", quote(filepath.Base(g.config.Root))),
			Range:   &Range{File: "."},
			Hint:    noConfiguration,
		})
	}
}

// unreadFiles warns about files of a configuration directory that are not read because of their name or the name of
// their folder.
func (l *loader) unreadFiles() {
	for _, name := range l.strays() {
		l.unreadFile(name, "", "move it into common or local, or include it: include "+quote(name)+" {}")
	}
	l.strayFolders()
	for _, folder := range []string{"common", "local"} {
		for _, name := range l.unreadIn(folder) {
			near := ""
			if strings.HasSuffix(name, ".json") && !isConfig(name) {
				near = slashpath.Join(folder, strings.TrimSuffix(name, ".json")+".hcl.json")
			}
			if near != "" && !l.inputs.read(slashpath.Join(folder, name)) {
				l.unreadFile(slashpath.Join(folder, name), near, "")
			}
		}
		entries, _ := os.ReadDir(filepath.Join(l.config.Root, folder))
		for _, e := range entries {
			inner := slashpath.Join(folder, e.Name())
			if !e.IsDir() || slices.Contains(Profiles(), e.Name()) ||
				!slices.ContainsFunc(l.unreadIn(inner), isConfig) {
				continue
			}
			near := nearest(e.Name(), Profiles())
			if near != "" {
				near = slashpath.Join(folder, near)
			}
			l.unreadFile(inner, near, "name a profile, or include the files")
		}
	}
}

// strayFolders warns about folders with configuration whose name is similar to common or local, or that of a profile:
// profile folders belong into these two. A folder with its own ferment.hcl is another configuration.
func (l *loader) strayFolders() {
	if !l.opts.Advise {
		return
	}
	read := []string{"common", "local"}
	entries, _ := os.ReadDir(l.config.Root)
	for _, e := range entries {
		name := e.Name()
		full := filepath.Join(l.config.Root, name)
		if !e.IsDir() || slices.Contains(read, name) || exists(filepath.Join(full, DefaultFile)) ||
			!slices.ContainsFunc(l.unreadIn(name), isConfig) {
			continue
		}
		near := nearest(name, read)
		if slices.Contains(Profiles(), name) {
			near = slashpath.Join("local", name)
		}
		if near != "" {
			l.unreadFile(name, near, "")
		}
	}
}

// strays returns the files of the root that look like Ferment configuration and
// were not read, if Options.Advise is set.
func (l *loader) strays() (names []string) {
	if !l.opts.Advise {
		return nil
	}
	for _, name := range l.unreadIn(".") {
		full := filepath.Join(l.config.Root, name)
		if !isConfig(name) || full == l.config.Host.LockFile || l.inputs.read(name) {
			continue
		}
		raw, err := readConfig(name, full, MaxFileBytes)
		if err == nil && isOurs(name, raw) {
			names = append(names, name)
		}
	}
	return names
}

// isOurs reports whether a file contains only Ferment blocks. Other programs also use HCL, and some share the block
// names locals and include.
func isOurs(name string, raw []byte) bool {
	var tops []string
	if strings.HasSuffix(name, ".json") {
		var root map[string]json.RawMessage
		_ = json.Unmarshal(raw, &root) // other values have no names
		tops = slices.Sorted(maps.Keys(root))
	} else {
		for _, m := range opening.FindAllSubmatch(raw, -1) {
			tops = append(tops, string(m[1]))
		}
	}
	own := Specification().names("")
	shared := []string{"locals", "include"}
	return !slices.ContainsFunc(tops, func(t string) bool { return !slices.Contains(own, t) }) &&
		slices.ContainsFunc(tops, func(t string) bool { return !slices.Contains(shared, t) })
}

// unreadIn returns the names of the files of a folder that were not read as configuration.
func (l *loader) unreadIn(folder string) (names []string) {
	entries, _ := os.ReadDir(filepath.Join(l.config.Root, filepath.FromSlash(folder)))
	for _, e := range entries {
		if !e.IsDir() && !strings.HasPrefix(e.Name(), ".") && l.files[slashpath.Join(folder, e.Name())] == nil {
			names = append(names, e.Name())
		}
	}
	return names
}

func (l *loader) unreadFile(name, near, hint string) {
	l.report.add(Diagnostic{
		Type:     "config/unused",
		Severity: SeverityWarning,
		Message:  quote(name) + " is not read",
		Range:    &Range{File: name},
		Expected: edn.Text("common and local, and in them a folder for a profile, with files that end in .hcl or .hcl.json"),
		Nearest:  near,
		Hint:     cmp.Or(meant(near), hint),
	})
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// folder reads the files of one directory below the root, sorted by name. A
// missing directory is not an error.
func (g *gatherer) folder(name string) {
	dir := filepath.Join(g.config.Root, filepath.FromSlash(name))
	names, ok := g.list(dir, name)
	if !ok {
		return
	}
	g.variablesOf(dir)
	for _, file := range names {
		if isConfig(file) {
			g.load(filepath.Join(dir, file), nil)
		}
	}
}

// list returns the names in a directory, sorted bytewise.
func (g *gatherer) list(dir, name string) ([]string, bool) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		if !os.IsNotExist(err) {
			g.report.add(Diagnostic{
				Type:    "config/include",
				Message: fmt.Sprintf("directory %s cannot be read: %s", quote(name), cause(err)),
				Range:   &Range{File: name},
			})
		}
		return nil, false
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	slices.Sort(names)
	return names, true
}

// isConfig reports whether a name is that of a configuration file. Names that
// begin with a dot are ignored.
func isConfig(name string) bool {
	return !strings.HasPrefix(name, ".") && (strings.HasSuffix(name, ".hcl") || strings.HasSuffix(name, ".hcl.json"))
}

func isEnv(name string) bool {
	return name == ".env" || strings.HasSuffix(name, ".env") && !strings.HasPrefix(name, ".")
}

// variablesOf reads the .env files of a directory, once.
func (g *gatherer) variablesOf(dir string) {
	if g.visited[dir] {
		return
	}
	g.visited[dir] = true
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // reported where its configuration is read
	}
	for _, e := range entries { // sorted
		if isEnv(e.Name()) && !e.IsDir() {
			g.loadEnv(filepath.Join(dir, e.Name()))
		}
	}
}

// source reads one file unless it has been read.
func (g *gatherer) source(full string, most int64) (*Source, bool) {
	name := printedName(g.config.Root, full)
	real, err := filepath.EvalSymlinks(full)
	if err != nil {
		real = full // reading reports the error
	}
	if g.seen[real] {
		return nil, false
	}
	g.seen[real] = true
	if len(g.seen) > MaxFiles {
		if len(g.seen) == MaxFiles+1 {
			g.report.add(Diagnostic{
				Type:    "config/limit",
				Message: fmt.Sprintf("the configuration has more than %d files", MaxFiles),
				Range:   &Range{File: name},
				Hint:    "join some of them",
			})
		}
		return nil, false
	}
	raw, rerr := readConfig(name, full, most)
	if rerr != nil {
		g.report.poison(anyName, anyName)
		g.report.add(Diagnostic{
			Type:    rerr.typ,
			Message: rerr.message,
			Range:   &Range{File: name},
			Nearest: rerr.nearest,
			Hint:    rerr.hint,
		})
		return nil, false
	}
	before := g.total
	if g.total += len(raw); g.total > MaxTotalBytes {
		if before <= MaxTotalBytes {
			g.report.add(Diagnostic{
				Type: "config/limit",
				Message: fmt.Sprintf("the files of the configuration have more than %s in all, counted up to %s",
					formatBytes(MaxTotalBytes), quote(name)),
				Range: &Range{File: name},
				Hint:  "the limit keeps a load short: remove or split",
			})
		}
		return nil, false
	}
	s := newSource(name, full, len(g.files), raw)
	g.files[name] = s
	return s, true
}

// load reads one configuration file, after the files that it includes. from is the
// range of the include, if any.
func (g *gatherer) load(full string, from *Range) {
	real, err := filepath.EvalSymlinks(full)
	if err != nil {
		real = full
	}
	if i := slices.Index(g.under, real); i >= 0 {
		ring := append(slices.Clone(g.names[i:]), printedName(g.config.Root, full))
		g.report.add(Diagnostic{
			Type:    "config/cycle",
			Message: "files include each other: " + strings.Join(ring, " -> "),
			Range:   from,
			Path:    []string{"include"},
			Hint:    "remove one of the includes",
		})
		return
	}
	if len(g.under) > MaxIncludeDepth {
		g.report.add(Diagnostic{
			Type:    "config/limit",
			Message: fmt.Sprintf("includes are nested more than %d deep", MaxIncludeDepth),
			Range:   from,
			Path:    []string{"include"},
		})
		return
	}
	s, ok := g.source(full, MaxFileBytes)
	if !ok {
		return
	}
	var body hcl.Body
	if strings.HasSuffix(full, ".json") {
		body = parseJSON(s, g.report)
	} else {
		body = parse(s, g.report)
	}
	root := &node{
		spec:   Specification(),
		source: s,
		header: hcl.Range{Filename: s.Name, Start: hcl.InitialPos, End: hcl.InitialPos},
	}
	(&grower{source: s, report: g.report}).grow(root, body)
	g.variablesOf(filepath.Dir(full))
	g.under, g.names = append(g.under, real), append(g.names, s.Name)
	g.includes(root)
	g.under, g.names = g.under[:len(g.under)-1], g.names[:len(g.names)-1]
	g.trees = append(g.trees, root)
	g.config.Files = append(g.config.Files, s)
}

// includes reads the included files and removes the include blocks from the tree.
func (g *gatherer) includes(root *node) {
	var rest []*node
	for _, b := range root.blocks {
		if b.spec.Name != "include" {
			rest = append(rest, b)
			continue
		}
		for _, full := range g.matches(b) {
			g.load(full, b.source.hclRange(b.header))
		}
	}
	root.blocks = rest
}

// matches returns the sorted files that an include matches.
func (g *gatherer) matches(b *node) []string {
	pattern := b.labels[0]
	fail := func(typ, message, hint string) []string {
		g.report.poison(anyName, anyName)
		g.report.add(Diagnostic{
			Type:    typ,
			Message: fmt.Sprintf("include %s %s", quote(pattern), message),
			Range:   b.source.hclRange(b.header),
			Path:    []string{"include", pattern},
			Hint:    hint,
		})
		return nil
	}
	optional, ok := g.optional(b)
	if !ok {
		return nil
	}
	dir := printedName(g.config.Root, filepath.Dir(b.source.Path))
	below := slashpath.Join(dir, pattern)
	if slashpath.IsAbs(pattern) || !fs.ValidPath(below) {
		return fail("config/include", "leads out of the root directory", "copy the file below the directory of the configuration")
	}
	if _, err := slashpath.Match(pattern, ""); err != nil {
		return fail("config/syntax", "is not a valid pattern", "a pattern knows *, ? and [a-z]")
	}
	found, err := fs.Glob(os.DirFS(g.config.Root), below)
	if err != nil {
		return fail("config/include", "cannot be read: "+cause(err), "")
	}
	globbed := strings.ContainsAny(pattern, "*?[")
	if globbed {
		own := printedName(g.config.Root, b.source.Path) // a pattern does not match its own file
		found = slices.DeleteFunc(found,
			func(name string) bool { return name == own || !isConfig(slashpath.Base(name)) })
	} else if len(found) == 0 && exists(filepath.Join(g.config.Root, filepath.FromSlash(below))) {
		found = []string{below} // a dangling symbolic link
	}
	slices.Sort(found)
	if len(found) == 0 && !optional && !b.damaged {
		hint := "write optional = true in it if the file need not be there"
		if near := Neighbour(filepath.Join(filepath.Dir(b.source.Path), pattern), fs.ErrNotExist); near != "" &&
			!globbed {
			hint = meant(slashpath.Join(slashpath.Dir(pattern), filepath.Base(near)))
		}
		return fail("config/include", "matches no file", hint)
	}
	var out []string
	for _, name := range found {
		full := filepath.Join(g.config.Root, filepath.FromSlash(name))
		if info, err := os.Stat(full); err == nil && info.IsDir() && !globbed {
			files := slashpath.Join(pattern, "*.hcl")
			return fail("config/include", "names a directory", "write include "+quote(files)+" for the files in it")
		}
		if !isConfig(slashpath.Base(name)) {
			return fail("config/include", "names a file that ends neither in .hcl nor in .hcl.json", "rename the file")
		}
		if real, err := filepath.EvalSymlinks(full); err == nil {
			if rel, err := filepath.Rel(g.real, real); err != nil || !filepath.IsLocal(rel) {
				return fail("config/include", "leads out of the root directory by a symbolic link", "copy the file below the directory of the configuration")
			}
		}
		out = append(out, full)
	}
	return out
}

// optional reads the attribute optional of an include. It must be a literal,
// because it is needed before the names that expressions use are known.
func (g *gatherer) optional(b *node) (value, ok bool) {
	a, written := b.attrs["optional"]
	if !written {
		return false, true
	}
	v, isLiteral := literal(a.expr)
	if isLiteral && v.IsNull() {
		return false, true
	}
	out, err := asBool(v)
	if !isLiteral || err != nil {
		g.report.add(Diagnostic{
			Type:     "config/type",
			Message:  subject([]string{"include", b.labels[0], "optional"}) + " is not written out",
			Range:    a.source.hclRange(a.expr.Range()),
			Path:     []string{"include", b.labels[0], "optional"},
			Expected: edn.Text("true or false"),
		})
		return false, false
	}
	return out, true
}

// number numbers the files in load order, by which diagnostics are sorted.
func (g *gatherer) number() {
	for i, s := range g.config.Files {
		s.order = i
	}
	for _, s := range g.files {
		if s.private {
			s.order = len(g.config.Files) + s.order
		}
	}
}

// misplacedProfile rejects ferment.profile in files whose reading depends on the
// profile.
func (g *gatherer) misplacedProfile() {
	for _, tree := range g.trees {
		for _, f := range tree.children("ferment") {
			a, ok := f.attrs["profile"]
			if ok && !slices.Contains(g.profiled, a.source) {
				g.report.add(Diagnostic{
					Type:    "config/include",
					Message: "profile in ferment is allowed only in " + DefaultFile + " or in common/: it decides which files are read",
					Range:   a.at(),
					Path:    []string{"ferment", "profile"},
					Hint:    "move it",
				})
			}
		}
	}
}

// Neighbour returns the file beside a missing one that was probably meant; empty
// if there is none or err is not a missing file.
func Neighbour(name string, err error) string {
	if !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	entries, _ := os.ReadDir(filepath.Dir(name))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if near := nearest(filepath.Base(name), names); near != "" {
		return filepath.Join(filepath.Dir(name), near)
	}
	return ""
}
