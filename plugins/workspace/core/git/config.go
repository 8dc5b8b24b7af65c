package git

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Reason is a cause for which the ids can differ from git's.
type Reason string

// The reasons.
const (
	ReasonAttributes Reason = "attributes"        // an attribute that converts content
	ReasonConfig     Reason = "config"            // core.autocrlf and the like
	ReasonInclude    Reason = "config-include"    // configuration in files that are not read
	ReasonUnreadable Reason = "config-unreadable" // a file of git that cannot be read
	ReasonNoCommit   Reason = "no-commit"         // a nested repository whose HEAD does not resolve
	ReasonName       Reason = "name"              // a name that git refuses
	ReasonIgnore     Reason = "ignore"            // ignore rules that git does not read
)

// Inexact is a path with the reason for which ids at and above it can differ.
type Inexact struct {
	Path   string // relative to the workspace, or the path of a file of git outside of it
	Reason Reason
	Detail string
}

// Settings are the settings of a workspace from git's files.
type Settings struct {
	// Format is the hash of the repository, sha1 if there is none.
	Format string
	// Excludes are info/exclude and core.excludesFile, in order of precedence.
	Excludes []Source
	Inexact  []Inexact
}

// Source is a file with exclude patterns.
type Source struct {
	Name string
	Text []byte
}

// Environment locates the files of a user.
type Environment struct {
	System string // /etc/gitconfig
	Home   string
	Config string // $XDG_CONFIG_HOME, or .config of Home
	// NoHome means that HOME is not known, so the files of the user are not read.
	NoHome bool
}

// EnvironmentOf returns the environment that the variables of getenv describe;
// getenv is os.Getenv or has its form.
func EnvironmentOf(getenv func(string) string) Environment {
	e := Environment{System: "/etc/gitconfig", Home: getenv("HOME"), Config: getenv("XDG_CONFIG_HOME")}
	e.NoHome = e.Home == ""
	if getenv("GIT_CONFIG_NOSYSTEM") != "" {
		e.System = ""
	}
	if e.Config == "" && e.Home != "" {
		e.Config = filepath.Join(e.Home, ".config")
	}
	return e
}

// converting are the settings of the section core that change ids, with the
// value at which they do not.
var converting = map[string]string{
	"autocrlf": "false", "filemode": "true", "symlinks": "true", "ignorecase": "false",
	"sparsecheckout": "false", // git keeps entries that are not checked out, and adds none outside the patterns
}

// Read returns the settings for a workspace. The workspace need not be a
// repository.
func Read(root string, env Environment) *Settings {
	s := &Settings{Format: "sha1"}
	r := reader{settings: s, root: root, home: env.Home, core: map[string]setting{}}
	if env.NoHome {
		r.unreadable("~/.gitconfig", `HOME is not set: pass it to the plugin with env_pass = ["HOME"]`)
	}
	r.config(env.System)
	if env.Config != "" {
		r.config(filepath.Join(env.Config, "git", "config"))
	}
	if env.Home != "" {
		r.config(filepath.Join(env.Home, ".gitconfig"))
	}
	dir, common := locate(root)
	if dir != "" {
		r.config(filepath.Join(common, "config"))
		if r.worktrees {
			r.config(filepath.Join(dir, "config.worktree"))
		}
		r.exclude(filepath.Join(common, "info", "exclude"), ".git/info/exclude")
		attributes := filepath.Join(common, "info", "attributes")
		r.attributes(attributes, attributes)
	}
	r.user("excludesfile", "ignore", env, r.exclude)
	r.user("attributesfile", "attributes", env, r.attributes)
	if env.System != "" {
		attributes := filepath.Join(filepath.Dir(env.System), "gitattributes")
		r.attributes(attributes, attributes)
	}
	for name, exact := range converting {
		if v, set := r.core[name]; set && boolean(v.value) != exact {
			s.Inexact = append(s.Inexact, Inexact{Path: shown(root, v.file), Reason: ReasonConfig, Detail: "core." + name + " = " + v.value})
		}
	}
	return s
}

// shown returns the path of a file of git, relative if it is in the workspace.
func shown(root, path string) string {
	if rel, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return path
}

// setting is a value with the file in which it stands.
type setting struct{ value, file string }

// locate returns the directory of the repository at root, and the one that its
// worktrees share; empty if there is none.
func locate(root string) (dir, common string) {
	dir = filepath.Join(root, ".git")
	info, err := os.Stat(dir) // git follows a link
	if err != nil {
		return "", ""
	}
	if info.Mode().IsRegular() {
		text, err := os.ReadFile(dir)
		to, ok := strings.CutPrefix(strings.TrimRight(string(text), "\r\n"), "gitdir: ")
		if err != nil || !ok {
			return "", ""
		}
		if dir = to; !filepath.IsAbs(dir) {
			dir = filepath.Join(root, dir)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "HEAD")); err != nil {
		return "", ""
	}
	common = dir
	if text, err := os.ReadFile(filepath.Join(dir, "commondir")); err == nil {
		if common = strings.TrimRight(string(text), "\r\n"); !filepath.IsAbs(common) {
			common = filepath.Join(dir, common)
		}
	}
	return dir, common
}

type reader struct {
	settings  *Settings
	root      string // of the workspace
	home      string
	core      map[string]setting // last value of each key of the section core
	worktrees bool
}

// read returns the text of a file of git, nil if it does not exist.
func (r *reader) read(path string) []byte {
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.unreadable(path, err.Error())
	}
	return text
}

func (r *reader) unreadable(path, detail string) {
	r.settings.Inexact = append(r.settings.Inexact, Inexact{Path: path, Reason: ReasonUnreadable, Detail: detail})
}

// user passes to use the path that a key of the configuration names, or the default path, and the
// name that git shows of it. Git runs in the directory of the worktree, so a relative path is
// relative to it.
func (r *reader) user(key, fallback string, env Environment, use func(path, name string)) {
	named, set := r.core[key]
	name := named.value
	switch {
	case !set && env.Config != "":
		name = filepath.Join(env.Config, "git", fallback)
	case strings.HasPrefix(name, "~"):
		rest, own := strings.CutPrefix(name, "~/")
		if !own || r.home == "" {
			r.unreadable(name, "core."+key+" names a home directory that is not known")
			return
		}
		name = filepath.Join(r.home, rest)
	case strings.HasPrefix(name, "%(") || strings.HasPrefix(name, ":("):
		r.unreadable(name, "core."+key+" has a prefix that is not known")
		return
	}
	if path := name; path != "" {
		if !filepath.IsAbs(path) {
			path = filepath.Join(r.root, path)
		}
		use(path, name)
	}
}

func (r *reader) exclude(path, name string) {
	if text := r.read(path); len(text) > 0 {
		r.settings.Excludes = append(r.settings.Excludes, Source{Name: name, Text: text})
	}
}

func (r *reader) attributes(path, name string) {
	if what := Converting(r.read(path)); what != "" {
		r.settings.Inexact = append(r.settings.Inexact, Inexact{Path: name, Reason: ReasonAttributes, Detail: what})
	}
}

// config reads one file of the configuration.
func (r *reader) config(path string) {
	text := r.read(path)
	section := ""
	for line := range logicalLines(text) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "["); ok {
			name, after, _ := strings.Cut(rest, "]")
			section, line = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(after)
		}
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		key, value, hasValue := strings.Cut(line, "=")
		key = strings.ToLower(strings.TrimSpace(key))
		if value = unquote(strings.TrimSpace(value)); !hasValue {
			value = "true"
		}
		switch {
		case section == "core":
			r.core[key] = setting{value, path}
		case section == "extensions" && key == "objectformat":
			r.settings.Format = strings.ToLower(value)
		case section == "extensions" && key == "worktreeconfig":
			r.worktrees = boolean(value) == "true"
		case strings.HasPrefix(section, "include"):
			r.settings.Inexact = append(r.settings.Inexact, Inexact{Path: path, Reason: ReasonInclude, Detail: value})
		}
	}
}

// logicalLines yields lines, with those that end in a backslash joined.
func logicalLines(text []byte) func(func(string) bool) {
	return func(yield func(string) bool) {
		var kept strings.Builder
		for line := range strings.Lines(string(text)) {
			line = strings.TrimRight(line, "\r\n")
			if before, ok := strings.CutSuffix(line, `\`); ok && !strings.HasSuffix(before, `\`) {
				kept.WriteString(before)
				continue
			}
			kept.WriteString(line)
			if !yield(kept.String()) {
				return
			}
			kept.Reset()
		}
		if kept.Len() > 0 {
			yield(kept.String())
		}
	}
}

// unquote removes quotes, escapes and a comment from a value.
func unquote(s string) string {
	var b strings.Builder
	quoted := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && i+1 < len(s):
			i++
			switch s[i] {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			default:
				b.WriteByte(s[i])
			}
		case !quoted && (c == '#' || c == ';'):
			return strings.TrimRight(b.String(), " \t")
		default:
			b.WriteByte(c)
		}
	}
	return strings.TrimRight(b.String(), " \t")
}

// boolean returns true or false for git's spellings of them, other text as it
// is.
func boolean(v string) string {
	switch strings.ToLower(v) {
	case "true", "yes", "on", "1":
		return "true"
	case "false", "no", "off", "0", "":
		return "false"
	}
	return v
}

// Converting returns the first attribute of a .gitattributes file that can
// change the bytes that git stores, empty if there is none.
func Converting(text []byte) string {
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0][0] == '#' {
			continue
		}
		for _, attribute := range fields[1:] {
			name, _, _ := strings.Cut(attribute, "=")
			switch name {
			case "text", "eol", "crlf", "filter", "ident", "working-tree-encoding":
				return attribute
			}
		}
	}
	return ""
}
