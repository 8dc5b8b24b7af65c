//go:build unix

package scan

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/fermenthq/ferment/plugins/workspace/core/git"
	"github.com/fermenthq/ferment/plugins/workspace/core/ignore"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
)

// readRuleFiles applies the ignore files of a directory, and reads its attributes in the schemes of
// git. It does so even if these files are ignored themselves.
func (w *worker) readRuleFiles(d *directory, entries []entry) {
	var lists []*ignore.List
	has := func(name string) bool {
		return slices.ContainsFunc(entries, func(e entry) bool { return e.name == name })
	}
	for _, name := range ignoreFileNames {
		if has(name) {
			lists = append(lists, w.ruleFile(d, name).list)
		}
	}
	if w.Scheme.Git() && has(attributesFile) {
		w.ruleFile(d, attributesFile)
	}
	d.ignore = d.ignore.Add(lists...)
	w.did(d.path, partRules)
}

// rulesChanged reports whether the rule files of a directory differ from those of the last scan, so
// that everything below it must be examined again.
func (w *worker) rulesChanged(d *directory) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(append([]string{attributesFile}, ignoreFileNames...), func(name string) bool {
		path := tree.Join(d.path, name)
		return w.result.ruleFiles[path].content != w.Previous.ruleFiles[path].content
	})
}

// ruleFile returns an ignore or attributes file, from the last scan if it did not change. It
// returns an empty one if the entry is not a regular file.
func (w *worker) ruleFile(d *directory, name string) ruleFile {
	path := tree.Join(d.path, name)
	var st unix.Stat_t
	if unix.Fstatat(d.handle.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || kindOf(&st) != unix.DT_REG {
		return ruleFile{}
	}
	f, ok := ruleFile{}, false
	if w.Previous != nil && !w.Force {
		f, ok = w.Previous.ruleFiles[path]
		ok = ok && f.stat.Trusted && f.size == st.Size && sameStat(f.stat, &st)
	}
	if !ok {
		n := &tree.Node{Name: name}
		text, err := w.ruleText(d, n, st.Size)
		if err != nil {
			if !errors.Is(err, unix.ENOENT) {
				w.fail(contract.Errorf("ignore/invalid", "%w", err).WithOp("scan", shown(path)))
			}
			return ruleFile{}
		}
		f = newRuleFile(d, n, path, text)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.result.ruleFiles[path] = f
	return f
}

func newRuleFile(d *directory, n *tree.Node, path string, text []byte) ruleFile {
	f := ruleFile{stat: n.Stat, size: n.Size, content: n.Content}
	if n.Name == attributesFile {
		f.inexact, f.reason = git.Converting(text), git.ReasonAttributes
		return f
	}
	if f.list = ignore.Parse(path, d.path, text); f.list.Len() > 0 && n.Name == ignoreFileNames[0] {
		f.inexact, f.reason = "git does not know this file", git.ReasonIgnore
	}
	return f
}

// ruleText reads a rule file.
func (w *worker) ruleText(d *directory, n *tree.Node, size int64) ([]byte, error) {
	if size > maxRuleFile {
		return nil, fmt.Errorf("it has %d bytes, more than %d", size, maxRuleFile)
	}
	var text []byte
	if err := w.read(d, n, &text); err != nil {
		return nil, fmt.Errorf("it cannot be read: %w", err)
	}
	return text, nil
}
