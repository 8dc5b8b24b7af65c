package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	slashpath "path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/host/internal/runtime/config/disk"
	"github.com/fermenthq/ferment/host/internal/runtime/config/expression"
	"github.com/fermenthq/ferment/host/internal/runtime/config/language"
	"github.com/fermenthq/ferment/host/internal/runtime/config/syntax"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/hashicorp/hcl/v2"
)

// Default names of the configuration.
const (
	DefaultFile      = "ferment.hcl"
	DefaultDirectory = "config"
)

// MaxIncludeDepth is the maximum depth of nested includes (HCL-016).
const MaxIncludeDepth = 8

// Options selects the files of a configuration.
type Options struct {
	// Profile overrides the environment variable FERMENT_PROFILE and
	// ferment.profile; empty: not set.
	Profile string
	// Env looks up environment variables. It must not be nil.
	Env func(string) (string, bool)
}

// Set holds the files of one configuration. It is not modified after Read.
type Set struct {
	Root      string              // directory of the configuration
	Profile   string              // one of language.Profiles
	Files     []*diag.Source      // in load order
	Tree      *syntax.Node        // the merged tree; nil if no file could be read
	Variables map[string]Variable // of .env files
	Sources   diag.Sources        // all files that were read, including .env files
	env       func(string) (string, bool)
	report    *diag.Collector
}

// gatherer finds and reads the files of a configuration in load order, each
// once, and builds the tree of each.
type gatherer struct {
	*Set
	profile  string          // Options.Profile
	real     string          // root with symbolic links resolved
	seen     map[string]bool // files that were read, by path with symbolic links resolved
	visited  map[string]bool // directories whose .env files were read
	under    []string        // stack of including files, with symbolic links resolved
	names    []string        // display names of under
	trees    []*syntax.Node  // in load order
	total    int             // number of bytes read
	profiled []*diag.Source  // files in which ferment.profile is allowed
}

// Find returns the path of the default configuration in a directory: ferment.hcl, its JSON form, or
// the directory config, whichever exists first. If none exists, it returns the path of ferment.hcl.
func Find(dir string) string {
	for _, name := range []string{DefaultFile, DefaultFile + ".json", DefaultDirectory} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return filepath.Join(dir, name)
		}
	}
	return filepath.Join(dir, DefaultFile)
}

// Read reads and merges all files of the configuration at an absolute path, a file
// or a directory. It adds the files to known and reports problems in them.
func Read(full string, o Options, known diag.Sources, report *diag.Collector) *Set {
	g := &gatherer{
		Set:     &Set{Variables: map[string]Variable{}, Sources: known, env: o.Env, report: report},
		profile: o.Profile,
		seen:    map[string]bool{},
		visited: map[string]bool{},
	}
	info, err := os.Stat(full)
	if err == nil && info.IsDir() {
		g.Root = full
		g.directory()
	} else {
		g.Root = filepath.Dir(full)
		g.resolveRoot()
		g.variablesOf(g.Root)
		if g.ending(full) {
			g.load(full, nil)
		}
		if n := len(g.Files); n > 0 {
			g.profiled = g.Files[n-1:] // included files are before it
		}
		g.Profile = g.effectiveProfile()
	}
	g.number()
	g.misplacedProfile()
	for i, t := range g.trees {
		if i == 0 {
			g.Tree = t
			continue
		}
		g.Tree = syntax.Merge(g.Tree, t)
	}
	return g.Set
}

// ending reports a file whose extension does not identify its format (HCL-012), and returns false
// for it.
func (g *gatherer) ending(full string) bool {
	name := filepath.Base(full)
	if strings.HasSuffix(name, ".hcl") || strings.HasSuffix(name, ".hcl.json") || !disk.IsFile(full) {
		return true // reading it reports the problem
	}
	near := strings.TrimSuffix(name, filepath.Ext(name)) + ".hcl"
	if filepath.Ext(name) == ".json" {
		near += ".json"
	}
	g.report.Add(diag.Diagnostic{
		Type:     "config/include",
		Message:  fmt.Sprintf("file %s ends neither in .hcl nor in .hcl.json", diag.Quote(name)),
		Range:    &diag.Range{File: name},
		Expected: edn.Text("a file that ends in .hcl or .hcl.json, or a directory"),
		Hint:     "rename it, such as to " + near,
	})
	return false
}

func (g *gatherer) resolveRoot() {
	real, err := filepath.EvalSymlinks(g.Root)
	if err != nil {
		real = g.Root
	}
	g.real = real
}

// directory reads the files of a directory in the order of HCL-005. ferment.hcl
// and common determine the profile, and the profile the other files.
func (g *gatherer) directory() {
	g.resolveRoot()
	g.variablesOf(g.Root)
	for _, name := range []string{DefaultFile, DefaultFile + ".json"} {
		if full := filepath.Join(g.Root, name); exists(full) {
			g.load(full, nil)
		}
	}
	g.folder("common")
	g.profiled = slices.Clone(g.Files)
	g.Profile = g.effectiveProfile()
	for _, name := range []string{"common/prod", "local", "local/prod", "common/" + g.Profile,
		"local/" + g.Profile} {
		g.folder(name)
	}
	if len(g.Files) == 0 && g.report.Empty() {
		g.report.Add(diag.Diagnostic{
			Type:    "config/include",
			Message: fmt.Sprintf("directory %s holds no configuration", diag.Quote(filepath.Base(g.Root))),
			Range:   &diag.Range{File: "."},
			Hint:    noConfiguration,
		})
	}
}

// folder reads the files of one directory below the root, sorted by name. A
// missing directory is not an error.
func (g *gatherer) folder(name string) {
	dir := filepath.Join(g.Root, filepath.FromSlash(name))
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
			g.report.Add(diag.Diagnostic{
				Type:    "config/include",
				Message: fmt.Sprintf("directory %s cannot be read: %s", diag.Quote(name), disk.Cause(err)),
				Range:   &diag.Range{File: name},
				Hint:    "make it a directory that the user of the host may list",
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

// variablesOf reads the .env files of a directory, unless they were read before.
func (g *gatherer) variablesOf(dir string) {
	if g.visited[dir] {
		return
	}
	g.visited[dir] = true
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // reported when the configuration in it is read
	}
	for _, e := range entries { // sorted
		if isEnv(e.Name()) && !e.IsDir() {
			g.loadEnv(filepath.Join(dir, e.Name()))
		}
	}
}

// source reads one file. It returns false if the file was read before or cannot be read, which is
// reported.
func (g *gatherer) source(full string, most int64) (*diag.Source, bool) {
	name := disk.PrintedName(g.Root, full)
	real, err := filepath.EvalSymlinks(full)
	if err != nil {
		real = full // reading reports the error
	}
	if g.seen[real] {
		return nil, false
	}
	g.seen[real] = true
	if len(g.seen) > syntax.MaxFiles {
		if len(g.seen) == syntax.MaxFiles+1 {
			g.report.Add(diag.Diagnostic{
				Type:    "config/limit",
				Message: fmt.Sprintf("the configuration has more than %d files", syntax.MaxFiles),
				Range:   &diag.Range{File: name},
				Hint:    "join some of them",
			})
		}
		return nil, false
	}
	raw, rerr := disk.ReadConfig(name, full, most)
	if rerr != nil {
		if above := fileAbove(name, full); above != "" {
			rerr.Nearest, rerr.Hint = "", "a directory above has the file: --config "+above
		}
		g.report.Poison(diag.AnyName, diag.AnyName)
		g.report.Add(diag.Diagnostic{
			Type:    rerr.Type,
			Message: rerr.Message,
			Range:   &diag.Range{File: name},
			Nearest: rerr.Nearest,
			Hint:    rerr.Hint,
		})
		return nil, false
	}
	before := g.total
	if g.total += len(raw); g.total > syntax.MaxTotalBytes {
		if before <= syntax.MaxTotalBytes {
			g.report.Add(diag.Diagnostic{
				Type: "config/limit",
				Message: fmt.Sprintf("the files of the configuration have more than %s in all, counted up to %s",
					language.FormatBytes(syntax.MaxTotalBytes), diag.Quote(name)),
				Range: &diag.Range{File: name},
				Hint:  "remove files or parts that the configuration does not need",
			})
		}
		return nil, false
	}
	s := diag.NewSource(name, full, len(g.Sources), raw)
	g.Sources[name] = s
	return s, true
}

// load reads one configuration file, after the files that it includes. from is the
// range of the include, if any.
func (g *gatherer) load(full string, from *diag.Range) {
	real, err := filepath.EvalSymlinks(full)
	if err != nil {
		real = full
	}
	if i := slices.Index(g.under, real); i >= 0 {
		ring := append(slices.Clone(g.names[i:]), disk.PrintedName(g.Root, full))
		g.report.Add(diag.Diagnostic{
			Type:    "config/cycle",
			Message: "files include each other: " + strings.Join(ring, " -> "),
			Range:   from,
			Path:    []string{"include"},
			Hint:    "remove one of the includes",
		})
		return
	}
	if len(g.under) > MaxIncludeDepth {
		g.report.Add(diag.Diagnostic{
			Type:    "config/limit",
			Message: fmt.Sprintf("includes are nested more than %d deep", MaxIncludeDepth),
			Range:   from,
			Path:    []string{"include"},
			Hint:    "include these files from a file that is less deep",
		})
		return
	}
	s, ok := g.source(full, syntax.MaxFileBytes)
	if !ok {
		return
	}
	var body hcl.Body
	if strings.HasSuffix(full, ".json") {
		body = syntax.ParseJSON(s, g.report)
	} else {
		body = syntax.Parse(s, g.report)
	}
	root := syntax.Tree(s, body, g.report)
	g.variablesOf(filepath.Dir(full))
	g.under, g.names = append(g.under, real), append(g.names, s.Name)
	g.includes(root)
	g.under, g.names = g.under[:len(g.under)-1], g.names[:len(g.names)-1]
	g.trees = append(g.trees, root)
	g.Files = append(g.Files, s)
}

// includes reads the included files and removes the include blocks from the tree.
func (g *gatherer) includes(root *syntax.Node) {
	var rest []*syntax.Node
	for _, b := range root.Blocks {
		if b.Spec.Name != "include" {
			rest = append(rest, b)
			continue
		}
		for _, full := range g.matches(b) {
			g.load(full, b.Source.Range(b.Header))
		}
	}
	root.Blocks = rest
}

// matches returns the sorted paths of the files that an include matches.
func (g *gatherer) matches(b *syntax.Node) []string {
	pattern := b.Labels[0]
	fail := func(typ, message, hint string) []string {
		g.report.Poison(diag.AnyName, diag.AnyName)
		g.report.Add(diag.Diagnostic{
			Type:    typ,
			Message: fmt.Sprintf("include %s %s", diag.Quote(pattern), message),
			Range:   b.Source.Range(b.Header),
			Path:    []string{"include", pattern},
			Hint:    hint,
		})
		return nil
	}
	optional, ok := g.optional(b)
	if !ok {
		return nil
	}
	dir := disk.PrintedName(g.Root, filepath.Dir(b.Source.Path))
	below := slashpath.Join(dir, pattern)
	if slashpath.IsAbs(pattern) || !fs.ValidPath(below) {
		return fail("config/include", "leads out of the root directory", "copy the file below the directory of the configuration")
	}
	if _, err := slashpath.Match(pattern, ""); err != nil {
		return fail("config/syntax", "is not a valid pattern", "a pattern knows *, ? and [a-z]")
	}
	found, err := fs.Glob(os.DirFS(g.Root), below)
	if err != nil {
		return fail("config/include", "cannot be read: "+disk.Cause(err), "")
	}
	globbed := strings.ContainsAny(pattern, "*?[")
	if globbed {
		own := disk.PrintedName(g.Root, b.Source.Path) // a pattern does not match its own file
		found = slices.DeleteFunc(found,
			func(name string) bool { return name == own || !isConfig(slashpath.Base(name)) })
	} else if len(found) == 0 && exists(filepath.Join(g.Root, filepath.FromSlash(below))) {
		found = []string{below} // a dangling symbolic link
	}
	slices.Sort(found)
	if len(found) == 0 && !optional && !b.Damaged {
		hint := "write optional = true in it if the file need not be there"
		if near := disk.Neighbour(filepath.Join(filepath.Dir(b.Source.Path), pattern), fs.ErrNotExist); near != "" &&
			!globbed {
			hint = diag.DidYouMean(slashpath.Join(slashpath.Dir(pattern), filepath.Base(near)))
		}
		return fail("config/include", "matches no file", hint)
	}
	var out []string
	for _, name := range found {
		full := filepath.Join(g.Root, filepath.FromSlash(name))
		if info, err := os.Stat(full); err == nil && info.IsDir() && !globbed {
			files := slashpath.Join(pattern, "*.hcl")
			return fail("config/include", "names a directory", "write include "+diag.Quote(files)+" for the files in it")
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

// optional returns the attribute optional of an include. It must be a literal, because it is needed
// before the names in expressions are known.
func (g *gatherer) optional(b *syntax.Node) (value, ok bool) {
	a, written := b.Attrs["optional"]
	if !written {
		return false, true
	}
	v, isLiteral := syntax.Literal(a.Expr)
	if isLiteral && v.IsNull() {
		return false, true
	}
	out, err := expression.AsBool(v)
	if !isLiteral || err != nil {
		g.report.Add(diag.Diagnostic{
			Type:     "config/type",
			Message:  language.Subject([]string{"include", b.Labels[0], "optional"}) + " is not a literal",
			Range:    a.Source.Range(a.Expr.Range()),
			Path:     []string{"include", b.Labels[0], "optional"},
			Expected: edn.Text("true or false"),
		})
		return false, false
	}
	return out, true
}

// number sets the Order of the files, by which diagnostics are sorted; .env files are last.
func (g *gatherer) number() {
	for i, s := range g.Files {
		s.Order = i
	}
	for _, s := range g.Sources {
		if s.Private {
			s.Order = len(g.Files) + s.Order
		}
	}
}

// misplacedProfile reports ferment.profile in files that are read only after the profile is known.
func (g *gatherer) misplacedProfile() {
	for _, tree := range g.trees {
		for _, f := range tree.Children("ferment") {
			a, ok := f.Attrs["profile"]
			if ok && !slices.Contains(g.profiled, a.Source) {
				g.report.Add(diag.Diagnostic{
					Type:    "config/include",
					Message: "profile in ferment is allowed only in " + DefaultFile + " or in common/: it decides which files are read",
					Range:   a.At(),
					Path:    []string{"ferment", "profile"},
					Hint:    "move it",
				})
			}
		}
	}
}

// fileAbove returns the nearest ferment.hcl in a parent of the directory of path. It is empty if
// there is none, if path exists or has another name, or if its directory does not exist.
func fileAbove(name, path string) string {
	dir := filepath.Dir(path)
	if _, err := os.Lstat(path); name != DefaultFile || !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return ""
	}
	for dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		above := filepath.Join(dir, name)
		if info, err := os.Stat(above); err == nil && info.Mode().IsRegular() {
			return above
		}
	}
	return ""
}
