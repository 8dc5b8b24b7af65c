package scan

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/workspace/core/git"
	"github.com/fermenthq/ferment/plugins/workspace/core/ignore"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
)

// BuiltIn is the source name of the rules that always apply: .git and the paths
// in Options.Exclude are never part of the tree.
const BuiltIn = "built-in"

// Decision explains why a path is ignored or not.
type Decision struct {
	Ignored bool
	// Source, Line and Pattern identify the pattern that decides; they are
	// empty if none does. If the pattern is negative, the path is not ignored.
	Source  string
	Line    int
	Pattern string
	// At is the path that the pattern matches: the requested path, or a directory
	// above it.
	At string
	// Skipped states why a scan leaves out a path that is not ignored; empty if it does not.
	Skipped string
}

// String returns the decision for a message, such as: ignored by .gitignore:3
// "*.go".
func (d *Decision) String() string {
	switch {
	case d.Skipped != "":
		return d.Skipped
	case d.Source == "":
		return "not ignored: no pattern matches"
	case d.Line == 0:
		return fmt.Sprintf("ignored: %s is never part of the tree", shown(d.At))
	case d.Ignored:
		return fmt.Sprintf("ignored by %s:%d %q", d.Source, d.Line, d.Pattern)
	}
	return fmt.Sprintf("not ignored because of %s:%d %q", d.Source, d.Line, d.Pattern)
}

// Explain decides about a path with the rules that are on the disk now, as git
// check-ignore -v does. The path need not exist; directory then states whether
// it is a directory.
func Explain(o Options, path string, directory bool) (*Decision, error) {
	if err := CheckPath(path); err != nil || path == "" {
		return &Decision{}, err
	}
	root, err := os.OpenRoot(o.Root)
	if err != nil {
		return nil, unreadable("ignore", o.Root, err)
	}
	defer func() { _ = root.Close() }()
	if info, err := root.Lstat(path); err == nil {
		directory = info.IsDir()
	}
	rules := &ignore.Rules{Above: []*ignore.List{o.Patterns, o.Workspace}}
	if o.Scheme.Git() {
		for _, source := range git.Read(o.Root, o.Git).Excludes {
			rules.Below = append(rules.Below, ignore.Parse(source.Name, "", source.Text))
		}
	}
	var failed error
	e := ignore.NewExplainer(rules, func(dir string) []*ignore.List {
		lists, err := listsOn(root, dir)
		failed = errors.Join(failed, err)
		return lists
	})
	d := o.explain(e, path, directory)
	if failed != nil {
		return nil, contract.AsError(failed)
	}
	if !d.Ignored {
		d.Skipped = skippedKind(root, path)
	}
	return d, nil
}

// skippedKind states why the kind of a path, or of one above it, keeps it out of every tree.
func skippedKind(root *os.Root, path string) string {
	for at := tree.Parent(path); at != ""; at = tree.Parent(at) {
		if info, err := root.Lstat(at); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return fmt.Sprintf("it lies below the symlink %s, and links are not followed", shown(at))
		}
	}
	info, err := root.Lstat(path)
	if err != nil {
		return ""
	}
	kind := ""
	switch mode := info.Mode(); {
	case mode&fs.ModeNamedPipe != 0:
		kind = "FIFO"
	case mode&fs.ModeSocket != 0:
		kind = "socket"
	case mode&fs.ModeDevice != 0:
		kind = "device"
	default:
		return ""
	}
	return fmt.Sprintf("it is a %s; a tree has files, directories and symlinks", kind)
}

// explain decides about a path. A directory above the place of a built-in rule
// can be ignored by a pattern.
func (o *Options) explain(e *ignore.Explainer, path string, directory bool) *Decision {
	builtIn, name := o.builtIn(path)
	if name == "" {
		return decision(e.Explain(path, directory))
	}
	if up := tree.Parent(builtIn); up != "" {
		if d := decision(e.Explain(up, true)); d.Ignored {
			return d
		}
	}
	return &Decision{Ignored: true, Source: BuiltIn, Pattern: name, At: builtIn}
}

func decision(p *ignore.Pattern, at string, ignored bool) *Decision {
	if p == nil {
		return &Decision{}
	}
	return &Decision{Ignored: ignored, Source: p.Source, Line: p.Line, Pattern: p.Text, At: at}
}

// builtIn returns the path, and its last component, that a built-in rule leaves
// out; empty if there is none on the way to path.
func (o *Options) builtIn(path string) (at, name string) {
	for name := range strings.SplitSeq(path, "/") {
		at = tree.Join(at, name)
		if name == ".git" || slices.Contains(o.Exclude, at) {
			return at, name
		}
	}
	return "", ""
}

// listsOn reads the ignore files of a directory. It follows no symbolic links: a directory behind
// one has no lists.
func listsOn(root *os.Root, dir string) (lists []*ignore.List, err error) {
	if !isDirectory(root, dir) {
		return nil, nil
	}
	for _, name := range ignoreFileNames {
		path := tree.Join(dir, name)
		info, err := root.Lstat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		text, err := readRules(root, path)
		if err != nil {
			return nil, contract.Errorf("ignore/invalid", "%w", WithoutPath(err)).WithOp("ignore", shown(path))
		}
		lists = append(lists, ignore.Parse(path, dir, text))
	}
	return lists, nil
}

// isDirectory reports whether a path leads to a directory without links.
func isDirectory(root *os.Root, dir string) bool {
	for at := dir; at != ""; at = tree.Parent(at) {
		if info, err := root.Lstat(at); err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

func readRules(root *os.Root, path string) ([]byte, error) {
	f, err := root.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxRuleFile+1))
	if err == nil && len(text) > maxRuleFile {
		err = fmt.Errorf("it has more than %d bytes", maxRuleFile)
	}
	return text, err
}
