package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/fermenthq/ferment/plugins/testrunner/internal/patch"
	"github.com/fermenthq/ferment/plugins/testrunner/internal/scratch"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// applyPatch serves :code/apply-patch.
func (r *runner) applyPatch(ctx context.Context, input edn.Value) (edn.Value, error) {
	in, err := r.read("req/code.apply-patch", input)
	if err != nil {
		return edn.Nil(), err
	}
	a, err := r.apply(ctx, in)
	if err != nil {
		return edn.Nil(), err
	}
	a.read()
	return a.value(), nil
}

// applied is the result of a patch: a copy with changes, or a refusal.
type applied struct {
	copy    scratch.Copied
	changes []patch.Change
	refusal *patch.Refusal
	// contents holds the new text of changed files by path. The copy is removed
	// when its run ends; the contents are part of the answer.
	contents map[string]string
}

// maxContents is the maximum total size of the changed files in an answer, in bytes.
const maxContents = 1 << 20

// read sets contents to the changed text files, as far as maxContents permits.
func (a *applied) read() {
	a.contents = map[string]string{}
	room := int64(maxContents)
	for _, c := range a.changes {
		name := filepath.Join(a.copy.Dir, c.Path)
		info, err := os.Lstat(name)
		if err != nil || !info.Mode().IsRegular() || info.Size() > room {
			continue
		}
		if text, err := os.ReadFile(name); err == nil && utf8.Valid(text) {
			a.contents[c.Path] = string(text)
			room -= int64(len(text))
		}
	}
}

// apply applies the patch to a copy of the tree. The copy of a rejected patch
// is removed; another copy exists until its run ends.
func (r *runner) apply(ctx context.Context, in request) (applied, error) {
	p, refusal := patch.Parse(in.Patch, in.Strip)
	if refusal != nil {
		return applied{refusal: refusal}, nil
	}
	run := sdk.CallFrom(ctx).Run
	c, err := r.store.Copy(ctx, run, in.Dir)
	if err != nil {
		return applied{}, copyError(err, in.Dir)
	}
	changes, err := p.Apply(ctx, c.Dir)
	if err == nil {
		return applied{copy: c, changes: changes}, nil
	}
	dropped := r.store.Drop(run, c.Dir)
	if errors.As(err, &refusal) && dropped == nil {
		return applied{refusal: refusal}, nil
	}
	return applied{}, errors.Join(err, dropped)
}

// copyError returns the error of a failed copy: input/invalid if the tree is too large or cannot be
// read, otherwise err itself.
func copyError(err error, dir string) error {
	var large *scratch.LimitError
	var unreadable *scratch.TreeError
	if !errors.As(err, &large) && !errors.As(err, &unreadable) {
		return err
	}
	hint := "make the directory readable for the plugin, or name another one"
	if large != nil {
		hint = "name a smaller directory, or raise max_files or max_bytes in the config block of the plugin"
	}
	return contract.Errorf("input/invalid", "dir: %w", err).WithHint(hint).
		WithDetail("path", edn.Vector(edn.K("dir"))).
		WithDetail("got", edn.Text(dir))
}

func (a *applied) value() edn.Value {
	var b edn.MapBuilder
	b.Key("applies?", edn.Bool(a.refusal == nil))
	if a.refusal != nil {
		b.Key("reason", edn.Text(a.refusal.Reason))
		b.OptText("file", a.refusal.File)
		if a.refusal.Hunk > 0 {
			b.Key("hunk", edn.Int(int64(a.refusal.Hunk)))
		}
		if a.refusal.Line > 0 {
			b.Key("line", edn.Int(int64(a.refusal.Line)))
		}
		return b.Map()
	}
	b.Key("dir", edn.Text(a.copy.Dir))
	files := make([]edn.Value, len(a.changes))
	for i, c := range a.changes {
		files[i] = changeValue(c)
		if text, ok := a.contents[c.Path]; ok {
			files[i] = files[i].AssocKey("content", edn.Text(text))
		}
	}
	b.Key("files", edn.Vector(files...))
	if len(a.copy.LeftOut) > 0 {
		left := make([]edn.Value, len(a.copy.LeftOut))
		for i, path := range a.copy.LeftOut {
			left[i] = edn.Text(path)
		}
		b.Key("left-out", edn.Vector(left...))
	}
	return b.Map()
}

func changeValue(c patch.Change) edn.Value {
	var b edn.MapBuilder
	b.Key("path", edn.Text(c.Path))
	b.OptText("from", c.From)
	b.Key("status", edn.K(string(c.Status)))
	b.Key("added", edn.Int(int64(c.Added)))
	b.Key("removed", edn.Int(int64(c.Removed)))
	return b.Map()
}
