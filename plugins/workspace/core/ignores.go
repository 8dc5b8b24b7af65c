package core

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/ignore"
	"github.com/fermenthq/ferment/plugins/workspace/core/scan"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// ignoreList returns the text of the workspace's own ignore list.
func (w *Workspace) ignoreList(ctx context.Context) (text []byte, err error) {
	err = w.Store.View(ctx, store.Latest, func(v *store.Snapshot) (err error) {
		text, err = v.Ignore(ctx)
		return err
	})
	return text, err
}

// IgnoreList returns the lines of the workspace's own ignore list.
func (w *Workspace) IgnoreList(ctx context.Context) ([]string, error) {
	text, err := w.ignoreList(ctx)
	return linesOf(text), err
}

func linesOf(text []byte) []string {
	var lines []string
	for line := range strings.Lines(string(text)) {
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	return lines
}

// Explain returns why a path is ignored or not, according to the rules that are on the disk now, or
// else why scans skip it. directory states whether a path that does not exist is a directory.
// patterns take precedence over all other rules; nil adds none.
func (w *Workspace) Explain(ctx context.Context, path string, directory bool, patterns *ignore.List) (*scan.Decision, error) {
	o := scan.Options{Patterns: patterns}
	if err := w.prepare(ctx, &o); err != nil {
		return nil, err
	}
	d, err := scan.Explain(o, path, directory)
	if err != nil || d.Ignored || d.Skipped != "" {
		return d, err
	}
	return d, w.Store.View(ctx, store.Latest, func(v *store.Snapshot) error {
		for at := path; at != ""; {
			at = tree.Parent(at)
			now, err := v.Current(ctx, at)
			if err != nil {
				return err
			}
			if now != nil && now.Mode == id.Repo {
				d.Skipped = fmt.Sprintf("it lies in the nested repository %s, which is one node", store.Shown(at))
				return nil
			}
		}
		return nil
	})
}

// NotInTree adds the rule that ignores a path, or why scans skip it, to an error of type
// path/not-in-tree or node/not-found. It returns any other error, and an error about a path
// that is neither ignored nor skipped, unchanged.
func (w *Workspace) NotInTree(ctx context.Context, err error, path string) error {
	e := contract.AsError(err)
	if e == nil || e.Type != "path/not-in-tree" && e.Type != "node/not-found" {
		return err
	}
	d, failed := w.Explain(ctx, path, false, nil)
	if failed != nil || !d.Ignored && d.Skipped == "" {
		return err
	}
	named := *e
	named.Message = fmt.Sprintf("it is not in the tree: %s", d)
	if !d.Ignored {
		return named.WithHint("choose a file, a directory or a symlink that is in the tree")
	}
	out := named.WithDetail("source", edn.Text(d.Source)).WithDetail("pattern", edn.Text(d.Pattern))
	if d.Line > 0 {
		out = out.WithDetail("line", edn.Int(int64(d.Line)))
	}
	return out.WithHint("ferment workspace ignore explain " + path)
}

// IgnoreChange is the result of EditIgnore.
type IgnoreChange struct {
	Seq            uint64
	Patterns       []string // the list afterwards
	Added, Removed int
	// Tree holds, in a dry run, the changes that the next scan would make
	// because of the edit.
	Tree *tree.Changes
}

// EditIgnore appends patterns to the workspace's own ignore list and removes
// patterns with exactly the given text. Adding a pattern that is in the list, or
// removing one that is not, changes nothing. The list takes effect with the next
// scan. A dry run commits nothing; it scans with o to find what would change.
func (w *Workspace) EditIgnore(ctx context.Context, actor string, add, remove []string, dryRun bool, o scan.Options) (*IgnoreChange, error) {
	for _, p := range add {
		if err := checkPattern(p); err != nil {
			return nil, err
		}
	}
	c := &IgnoreChange{}
	if dryRun {
		text, err := w.ignoreList(ctx)
		if err != nil {
			return nil, err
		}
		return c, w.dryIgnore(ctx, c, c.edit(text, add, remove), o)
	}
	seq, err := w.Store.Update(ctx, actor, func(tx *store.Tx) error {
		*c = IgnoreChange{}
		text, err := tx.Ignore()
		if err == nil {
			_, err = tx.SetIgnore(c.edit(text, add, remove))
		}
		return err
	})
	c.Seq = seq
	return c, err
}

// edit returns the text after the change and counts what it does.
func (c *IgnoreChange) edit(text []byte, add, remove []string) []byte {
	lines := linesOf(text)
	before := len(lines)
	lines = slices.DeleteFunc(lines, func(line string) bool { return slices.Contains(remove, line) })
	c.Removed = before - len(lines)
	for _, p := range add {
		if !slices.Contains(lines, p) {
			lines = append(lines, p)
			c.Added++
		}
	}
	c.Patterns = lines
	if len(lines) == 0 {
		return nil
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}

// dryIgnore sets c.Tree to the changes that a scan would make if text replaced the ignore list.
func (w *Workspace) dryIgnore(ctx context.Context, c *IgnoreChange, text []byte, o scan.Options) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.prepare(ctx, &o); err != nil {
		return err
	}
	o.Paths, o.Dirs, o.Previous = nil, nil, w.known
	before, err := scan.Run(ctx, o)
	if err != nil {
		return err
	}
	o.Previous, o.Workspace = before, ignore.Parse(store.IgnoreSource, "", text)
	after, err := scan.Run(ctx, o)
	if err != nil {
		return err
	}
	c.Tree = tree.Diff(before.Tree, after.Tree)
	return w.Store.View(ctx, store.Latest, func(v *store.Snapshot) error {
		c.Seq = v.Seq()
		return nil
	})
}

// checkPattern returns an error unless a pattern is one line that can match.
func checkPattern(p string) error {
	if err := ignore.Check(p); err != nil {
		hint := "write one pattern as in a .gitignore file, such as *.log"
		if strings.HasPrefix(p, "#") {
			hint = "a pattern that begins with # is written as \\#"
		}
		return contract.Errorf("input/invalid", "the pattern %q cannot be used: %w", p, err).WithOp("ignore", p).
			WithHint(hint)
	}
	return nil
}
