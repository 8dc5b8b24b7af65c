package main

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/fermenthq/ferment/plugins/workspace/core"
	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/plugins/workspace/core/git"
	"github.com/fermenthq/ferment/plugins/workspace/core/ignore"
	"github.com/fermenthq/ferment/plugins/workspace/core/scan"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// maxListed bounds the lists of paths in an output (WS-027).
const maxListed = 1000

// treeIntents are those about the directory itself.
func treeIntents() []intent {
	return []intent{
		{
			name: "workspace/init", says: "Creates the store of a workspace with a scheme of its own; a scan creates one with the configured scheme.",
			admin: true, effects: write, writes: true, opens: creating, run: initialize,
		},
		{
			name: "workspace/scan", says: "Reads a directory into the Merkle tree and commits what changed.",
			needs: agent.Scan, effects: write, writes: true, streams: true, opens: creating, run: scanTree,
			absent: previewNew,
		},
	}
}

// checkDataDir refuses a data directory in which no later request would look for the
// store: only the setting says where that is.
func (r *request) checkDataDir() error {
	asked := r.text("data-dir")
	if asked == "" {
		return nil
	}
	at, err := r.hub.locate(r.common.Workspace)
	if err != nil || asked == at.data || asked == r.cfg.DataDir {
		return err
	}
	return invalid(edn.Vector(edn.K("data-dir")), "the store of this workspace is in %s", at.data).
		WithHint("set data_dir in the config block of the plugin, and allow it in isolation { write_paths }")
}

// initialize creates a store. One that exists must have the scheme.
func initialize(ctx context.Context, r *request) (edn.Value, error) {
	have := r.ws.Store.Identity
	if asked := r.text("scheme"); asked != "" {
		if want := core.SchemeOf(asked, r.ws.Root, r.hub.git); want != have.Scheme {
			return edn.Nil(), contract.Errorf("workspace/exists", "the store has the scheme %s, expected %s",
				have.Scheme, want).WithOp("workspace", r.ws.Root)
		}
	}
	return r.view(ctx, func(_ *store.Snapshot, out *edn.MapBuilder) error {
		out.Key("workspace/id", edn.Text(have.ID))
		out.Key("scheme", edn.Text(have.Scheme))
		out.Key("created?", edn.Bool(r.created))
		out.Key("data-dir", edn.Text(r.data))
		return nil
	})
}

// scanTree reads the directory (WS-027).
func scanTree(ctx context.Context, r *request) (edn.Value, error) {
	o, err := r.scanOptions()
	if err != nil {
		return edn.Nil(), err
	}
	if err := r.knownPaths(ctx, o.Paths); err != nil {
		return edn.Nil(), err
	}
	var done *core.Scanned
	if r.flag("dry-run?") {
		done, err = r.ws.Preview(ctx, o)
	} else {
		done, err = r.ws.ScanAs(ctx, r.actor, o)
	}
	if err != nil {
		return edn.Nil(), err
	}
	r.server.meter.scanned(done)
	return r.stamped(ctx, done.Seq, func(out *edn.MapBuilder) { r.putScanned(out, done) })
}

func (r *request) putScanned(out *edn.MapBuilder, done *core.Scanned) {
	putChanges(out, done.Changes)
	putScan(out, done.Result, done.Result.Tree.Scheme.Git())
	out.OptTrue("dry-run?", r.flag("dry-run?"))
}

// previewNew is a dry run of the first scan: it creates no store.
func previewNew(ctx context.Context, r *request) (edn.Value, error) {
	at, err := r.hub.locate(r.common.Workspace)
	if err != nil {
		return edn.Nil(), err
	}
	o, err := r.scanOptions()
	if err != nil {
		return edn.Nil(), err
	}
	for _, path := range o.Paths {
		if !onDisk(at.root, path) {
			return edn.Nil(), unknownPath(path)
		}
	}
	done, err := core.PreviewNew(ctx, at.root, r.hub.options(at, r.cfg.Scheme), o)
	if err != nil {
		return edn.Nil(), err
	}
	r.server.meter.scanned(done)
	var out edn.MapBuilder
	r.putScanned(&out, done)
	out.Key("seq", edn.Int(0))
	return out.Map(), nil
}

// knownPaths refuses paths that are neither on the disk nor in the tree.
func (r *request) knownPaths(ctx context.Context, paths []string) error {
	return r.ws.Store.View(ctx, store.Latest, func(v *store.Snapshot) error {
		for _, path := range paths {
			if onDisk(r.ws.Root, path) {
				continue
			}
			now, err := v.Current(ctx, path)
			if err != nil {
				return err
			}
			if now == nil {
				return unknownPath(path)
			}
		}
		return nil
	})
}

func onDisk(root, path string) bool {
	_, err := os.Lstat(filepath.Join(root, filepath.FromSlash(path)))
	return err == nil
}

func unknownPath(path string) error {
	return contract.Errorf("path/not-in-tree", "the path is neither on disk nor in the tree").WithOp("scan", store.Shown(path))
}

// scanOptions returns the options of a scan by settings and input.
func (r *request) scanOptions() (scan.Options, error) {
	o := scan.Options{
		Workers:        r.cfg.Workers,
		Boundaries:     r.cfg.Nested == "boundary",
		OneFileSystem:  r.cfg.OneFS,
		MaxNodes:       r.cfg.MaxNodes,
		SkipUnreadable: r.word("on-unreadable") == "skip",
		Force:          r.flag("force?"),
	}
	show := r.progress("scan", "entries")
	var examined atomic.Int64 // by all workers
	o.Progress = func(entries int) { show(int(examined.Add(int64(entries))), 0) }
	for i, text := range r.texts("paths") {
		path, err := store.CheckPath(text)
		if err != nil {
			return o, contract.AsError(err).WithDetail("at", edn.Vector(edn.K("paths"), edn.Int(int64(i))))
		}
		o.Paths = append(o.Paths, path)
	}
	o.Patterns = requestPatterns(r.texts("patterns"), r.word("preset"))
	return o, nil
}

// requestPatterns returns the ignore patterns of a request.
func requestPatterns(patterns []string, preset string) *ignore.List {
	text := ""
	if preset == "build-dirs" {
		text = scan.BuildDirs
	}
	for _, p := range patterns {
		text += p + "\n"
	}
	if text == "" {
		return nil
	}
	return ignore.Parse("request", "", []byte(text))
}

func putChanges(out *edn.MapBuilder, c *tree.Changes) {
	out.Key("added", number(len(c.Added)))
	out.Key("modified", number(len(c.Modified)))
	out.Key("removed", number(len(c.Removed)))
	out.Key("unchanged", number(c.Unchanged))
	out.Key("paths", edn.MustMap(
		edn.K("added"), changed(c.Added), edn.K("modified"), changed(c.Modified), edn.K("removed"), changed(c.Removed)))
	var renamed []edn.Value
	for _, x := range c.Renamed[:min(len(c.Renamed), maxListed)] {
		renamed = append(renamed, moved(x.From, x.To))
	}
	out.Key("renamed", edn.Vector(renamed...))
}

func changed(list []tree.Change) edn.Value {
	var paths []string
	for _, c := range list[:min(len(list), maxListed)] {
		paths = append(paths, c.Path)
	}
	return pathList(paths)
}

func putScan(out *edn.MapBuilder, s *scan.Result, inGit bool) {
	out.Key("skipped", number(s.Skipped))
	out.Key("bytes-hashed", number(s.BytesHashed))
	out.Key("ignore/digest", edn.Text(s.IgnoreDigest.String()))
	out.Key("tree/complete?", edn.Bool(s.Complete))
	if len(s.Unreadable) > 0 {
		out.Key("unreadable", pathList(s.Unreadable[:min(len(s.Unreadable), maxListed)]))
	}
	if len(s.Unstable) > 0 {
		out.Key("scan/unstable", pathList(s.Unstable[:min(len(s.Unstable), maxListed)]))
	}
	if !inGit {
		return
	}
	out.Key("git/exact?", edn.Bool(len(s.Inexact) == 0))
	if len(s.Inexact) > 0 {
		out.Key("git/inexact", inexact(s.Inexact))
	}
}

func inexact(list []git.Inexact) edn.Value {
	var all []edn.Value
	for _, x := range list[:min(len(list), maxListed)] {
		var b edn.MapBuilder
		putPath(&b, x.Path)
		b.Key("reason", edn.K(string(x.Reason)))
		b.OptText("detail", x.Detail)
		all = append(all, b.Map())
	}
	return edn.Vector(all...)
}
