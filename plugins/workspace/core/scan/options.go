package scan

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/fermenthq/ferment/plugins/workspace/core/git"
	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/ignore"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// BuildDirs is the preset of that name: directories of build results.
const BuildDirs = "target/\nnode_modules/\n.cargo/\n"

// Limits of a scan.
const (
	DefaultMaxNodes = 1_000_000
	maxDepth        = 1000
	maxPath         = 4096
	maxRuleFile     = 1 << 20
	maxListed       = 100 // unreadable paths in an error
	tries           = 3   // reads of a file that changes meanwhile
)

// racyWindow is the age that a timestamp must have to prove that the file has not changed since:
// file systems with coarse timestamps give equal times to two changes within the window.
const racyWindow = 2 * time.Second

// Options configure a scan. Root and Scheme are required.
type Options struct {
	Root    string // absolute, without symbolic links: see Resolve
	Scheme  id.Scheme
	Workers int // 0 means the number of processors
	// Patterns are the patterns of the request, Workspace those of the
	// workspace. Patterns take precedence.
	Patterns, Workspace *ignore.List
	// Exclude are paths that are never part of the tree, such as the data
	// directory.
	Exclude []string
	// Boundaries makes nested repositories leaves of the tree. In the schemes
	// of git they always are leaves.
	Boundaries bool
	// OneFileSystem leaves out directories on other file systems.
	OneFileSystem bool
	// SkipUnreadable leaves unreadable entries out instead of failing.
	SkipUnreadable bool
	// Force reads every file again.
	Force bool
	// Paths limits the scan to these paths and everything below them. Dirs limits
	// it to the entries of these directories: a subdirectory in the previous
	// result is kept unchanged, a new one is read. Everything below a changed
	// ignore rule is also read. Without a Previous of this process, everything is
	// read.
	Paths, Dirs []string
	Previous    *Result
	MaxNodes    int // 0 means DefaultMaxNodes
	// Git locates the configuration of git. It is used in the schemes of git.
	Git git.Environment
	// Now is the clock of the racy window. The default is time.Now.
	Now func() time.Time
	// Progress is called with the number of entries that were examined. It must
	// be fast and safe for concurrent use.
	Progress func(entries int)
	// Visit is called with the path of a directory before its entries are read,
	// and with that of the .git in a nested repository that may be a leaf. It must
	// be safe for concurrent use. A watch that begins in this call misses no
	// change.
	Visit func(dir string)

	// before is called before an access; its error replaces the access. Tests
	// inject faults with it.
	before func(op, path string) error
}

func (o *Options) fault(op, path string) error {
	if o.before == nil {
		return nil
	}
	return o.before(op, path)
}

// Result is the result of a scan.
type Result struct {
	Tree *tree.Tree
	// Complete is false if unreadable entries were left out.
	Complete bool
	// Unreadable are the paths that were left out, Unstable those that changed
	// while they were read or disappeared.
	Unreadable, Unstable []string
	Skipped              int   // sockets, FIFOs, devices, other file systems
	BytesHashed          int64 // of files and links
	Opened               int   // files that were opened, ignore files included
	// Inexact are the reasons why ids can differ from git's. It is empty in
	// schemes that do not use git's ids.
	Inexact []git.Inexact
	// IgnoreDigest identifies the ignore rules that applied.
	IgnoreDigest id.ID
	// Inode is the inode of the root directory, 0 if it is not known.
	Inode uint64

	ruleFiles map[string]ruleFile // by path; nil in a result from a stat cache
	// global identifies the options that decide about the whole tree.
	global string
}

// ruleFile is an ignore or attributes file that was read.
type ruleFile struct {
	stat    tree.Stat
	size    int64
	content id.ID
	list    *ignore.List
	// inexact and reason say why the file makes ids differ from git's.
	inexact string
	reason  git.Reason
}

// Resolve returns the absolute path of a workspace without symbolic links. The
// result must be one of the allowed directories or inside one.
func Resolve(root string, allowed []string) (string, error) {
	abs, err := filepath.Abs(root)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", unreadable("workspace", root, err)
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return "", contract.Errorf("workspace/not-found", "the path is not a directory").WithOp("workspace", root).
			WithHint("use the path of a directory")
	}
	for _, a := range allowed {
		if a, err = filepath.EvalSymlinks(a); err == nil && below(abs, a) {
			return abs, nil
		}
	}
	return "", contract.Errorf("workspace/root-denied", "the directory is outside of the allowed roots %s",
		strings.Join(allowed, ", ")).
		WithOp("workspace", root)
}

func below(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// CheckPath returns an error unless path is relative to a workspace and in the
// form in which nodes store paths.
func CheckPath(path string) error {
	reason := ""
	switch {
	case path == "":
		return nil
	case len(path) > maxPath:
		reason = "it has more than 4096 bytes"
	case path[0] == '/':
		reason = "it is absolute"
	case strings.HasSuffix(path, "/"):
		reason = "it ends in a slash"
	case strings.Contains(path, "\x00"):
		reason = "it contains NUL"
	}
	for part := range strings.SplitSeq(path, "/") {
		switch {
		case reason != "":
		case part == "":
			reason = "it has an empty component"
		case part == "." || part == "..":
			reason = "it has a component " + part
		}
	}
	if reason == "" {
		return nil
	}
	return contract.Errorf("path/invalid", "%s", reason).WithOp("path", shown(path)).WithDetail("reason", edn.Text(reason))
}

func (o *Options) workers() int {
	if o.Workers > 0 {
		return o.Workers
	}
	return runtime.NumCPU()
}

// WithoutPath returns the cause of a *fs.PathError, for a message that names the path itself. Other
// errors are returned unchanged.
func WithoutPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
