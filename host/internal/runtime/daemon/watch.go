package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/runtime/setup"
)

// watchEvery is the polling interval of the configuration files under auto_reload. A stat of a few
// hundred files is cheap and works with every way in which editors write files.
const watchEvery = 500 * time.Millisecond

// watch reloads when a file of the configuration, a file beside it or a
// program changes, appears or disappears. A change must be stable for one
// round, so that a write in progress is not read.
func (d *Daemon) watch(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	seen := watched(d.loaded())
	last := seen
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		l := d.loaded()
		if !l.Host.AutoReload {
			seen = watched(l)
			last = seen
			continue
		}
		now := watched(l)
		settled := now == last
		last = now
		if now == seen || !settled {
			continue
		}
		_, _ = d.Reload(ctx, "a file changed") // Reload logs its outcome
		last = watched(d.loaded())
		seen = last
	}
}

// watched returns a fingerprint of the files that a configuration depends on: their sizes, times
// and inodes.
func watched(l *setup.Loaded) string {
	paths := map[string]bool{}
	dirs := map[string]bool{}
	for _, f := range l.Files {
		paths[f.Path] = true
		dirs[filepath.Dir(f.Path)] = true
	}
	for _, in := range l.Inputs {
		if in.Kind == "file" {
			paths[filepath.Join(l.Root, in.Name)] = true
		}
	}
	if t := l.HTTP.TLS; t != nil {
		paths[t.CertFile], paths[t.KeyFile] = true, true
	}
	for _, p := range l.Plugins {
		if len(p.Command) > 0 {
			paths[p.Command[0]] = true
		}
		for _, f := range append(slices.Clone(p.Files), p.Reads...) {
			paths[f] = true
		}
	}
	for dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if name := e.Name(); strings.HasSuffix(name, ".hcl") || strings.HasSuffix(name, ".hcl.json") ||
				strings.HasSuffix(name, ".env") {
				paths[filepath.Join(dir, name)] = true
			}
		}
	}
	var lines []string
	for path := range paths {
		if info, err := os.Stat(path); err == nil {
			lines = append(lines, fmt.Sprintf("%s %d %d %s", path, info.Size(), info.ModTime().UnixNano(), inode(info)))
		} else {
			lines = append(lines, path+" absent")
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
