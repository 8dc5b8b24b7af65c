package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/plugins/workspace/core/derive"
	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/scan"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/watch"
	"github.com/fermenthq/ferment/sdk"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// rig is a workspace in this process, with a request to watch it.
type rig struct {
	*testing.T
	root string
	r    *request
	run  func(context.Context, *watch.Event) (any, error)
}

// newRig scans files, of which each has the frame of an extractor and each directory one
// that is made from them, all of the type digest. regenerate is the entry of the request.
func newRig(t *testing.T, files []string, regenerate string) *rig {
	g := &rig{T: t, root: t.TempDir()}
	cfg := defaults
	cfg.AllowedRoots = []string{g.root}
	agents, err := agent.New([]agent.Agent{{ID: "temp", Role: agent.Writer}}, anyModel)
	require.NoError(t, err)
	h := newHub(t.Context(), cfg, agents, nil, time.Now, sdk.Logger(t.Context()))
	o, release, err := h.acquire(t.Context(), g.root, creating, "b3")
	require.NoError(t, err)
	t.Cleanup(func() {
		release()
		require.NoError(t, h.close(context.Background()))
	})
	synthesis, err := agents.Get("synthesis")
	require.NoError(t, err)
	g.r = &request{
		running: &running{cfg: cfg, agents: agents, hub: h},
		server:  newServer(),
		in:      edn.MustMap(edn.K("regenerate"), edn.MustRead(regenerate)),
		agent:   synthesis,
		opened:  o,
	}
	for _, name := range files {
		g.write(name, name)
	}
	_ = g.scan()
	_, err = o.engine.Generate(t.Context(), derive.GenerateRequest{
		Caller:    g.r.caller(),
		Targets:   []derive.Target{{}},
		Recursive: true,
		Type:      "digest",
		Producer:  "extract/text",
	})
	require.NoError(t, err)
	_, err = o.engine.Synthesize(t.Context(), derive.SynthesizeRequest{
		Caller:   g.r.caller(),
		Type:     "digest",
		Children: store.ChildrenBuild,
	})
	require.NoError(t, err)
	g.run, err = g.r.regenerateAfter()
	require.NoError(t, err)
	return g
}

func (g *rig) write(name, text string) {
	g.Helper()
	path := filepath.Join(g.root, name)
	require.NoError(g, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(g, os.WriteFile(path, []byte(text), 0o644))
}

func (g *rig) remove(name string) {
	g.Helper()
	require.NoError(g, os.RemoveAll(filepath.Join(g.root, name)))
}

// scan commits what changed and returns it as a watch does.
func (g *rig) scan() *watch.Event {
	g.Helper()
	done, err := g.r.ws.Scan(g.Context(), scan.Options{})
	require.NoError(g, err)
	c := &watch.Changes{}
	for _, x := range done.Changes.Added {
		c.Added = append(c.Added, x.Path)
	}
	for _, x := range done.Changes.Removed {
		c.Removed = append(c.Removed, x.Path)
	}
	for _, x := range done.Changes.Modified {
		if x.Old.Mode != id.Dir || x.New.Mode != id.Dir {
			c.Modified = append(c.Modified, x.Path)
		}
	}
	c.Counts = watch.Counts{Added: len(c.Added), Modified: len(c.Modified), Removed: len(c.Removed)}
	return &watch.Event{Kind: watch.Change, Changes: c}
}

// batch regenerates after a batch of changes.
func (g *rig) batch(e *watch.Event) {
	g.Helper()
	_, err := g.run(g.Context(), e)
	require.NoError(g, err)
}

// stale returns the paths whose frame is not fresh.
func (g *rig) stale() (list []string) {
	g.Helper()
	require.NoError(g, g.r.ws.Store.View(g.Context(), store.Latest, func(v *store.Snapshot) error {
		heads, err := v.Heads(g.Context(), "", nil)
		for _, h := range heads {
			if h.State != store.Fresh && h.State != store.Deleted {
				list = append(list, store.Shown(h.Path))
			}
		}
		return err
	}))
	return list
}

var watched = []string{"src/a/b/f", "src/a/g", "src/h", "docs/i", "top", "other"}

// WS-164: after each batch, what is in the scope of :up is fresh, whatever the batch
// has: a directory that is gone with all in it, files of the root, paths out of scope.
func TestRegenerateAfterBatches(t *testing.T) {
	changes := map[string]func(*rig){
		"a directory is removed": func(g *rig) { g.remove("src/a/b"); g.write("docs/i", "new") },
		"a file of the root":     func(g *rig) { g.remove("other"); g.write("docs/i", "new") },
		"deep and high":          func(g *rig) { g.remove("src/a/g"); g.write("src/a/b/f", "new"); g.write("top", "new") },
		"a file is a directory":  func(g *rig) { g.remove("src/h"); g.write("src/h/x", "new") },
	}
	// What a batch leaves stale, by :up. A directory stands for what is gone from it.
	left := map[string]map[string][]string{
		"": {
			"a directory is removed": {},
			"a file of the root":     {},
			"deep and high":          {},
			"a file is a directory":  {}, // the head of the file is gone with it
		},
		":none": {
			"a directory is removed": {".", "docs", "src"},
			"a file of the root":     {"docs"},
			"deep and high":          {".", "src", "src/a/b"},
			"a file is a directory":  {".", "src"},
		},
		"1": {
			"a directory is removed": {"."},
			"a file of the root":     {},
			"deep and high":          {},
			"a file is a directory":  {"."},
		},
		`"src"`: {
			"a directory is removed": {".", "docs", "docs/i"},
			"a file of the root":     {".", "docs", "docs/i"},
			"deep and high":          {".", "top"},
			"a file is a directory":  {"."},
		},
	}
	for up, stays := range left {
		option := ""
		if up != "" {
			option = ":up " + up
		}
		for name, change := range changes {
			t.Run(up+" "+name, func(t *testing.T) {
				t.Parallel()
				g := newRig(t, watched, `{:frame/types ["digest"] `+option+`}`)
				change(g)
				g.batch(g.scan())
				assert.ElementsMatch(t, stays[name], g.stale())
			})
		}
	}
}

// WS-164: a batch has paths that are gone again when it is regenerated; the others are
// made all the same.
func TestRegenerateAfterPathsThatAreGone(t *testing.T) {
	g := newRig(t, watched, `{:frame/types ["digest"] :up 1}`)
	g.write("docs/i", "new")
	e := g.scan()
	e.Added, e.Counts.Added = []string{"docs/gone", "a/gone"}, 2
	g.batch(e)
	assert.Equal(t, []string{"."}, g.stale())
}

// WS-164: a batch with more changes than an event lists regenerates all that is in scope.
func TestRegenerateAfterManyChanges(t *testing.T) {
	for _, up := range []string{":none", "1", `"src"`, ":root"} {
		g := newRig(t, watched, `{:frame/types ["digest"] :up `+up+`}`)
		g.write("src/a/b/f", "new")
		e := g.scan()
		e.Modified = nil // the count stays
		g.batch(e)
		if up == `"src"` {
			assert.Equal(t, []string{"."}, g.stale(), up)
		} else {
			assert.Empty(t, g.stale(), up)
		}
	}
}

// WS-164: what fails does not end the batch, is reported, and is tried again.
func TestRegenerateAfterFailures(t *testing.T) {
	g := newRig(t, watched, `{:frame/types ["digest"] :up :none}`)
	g.write("docs/i", "new")
	g.write("src/h", "new")
	e := g.scan()
	g.write("docs/i", "newer than the tree") // the extractor finds another file
	report, err := g.run(t.Context(), e)
	require.NoError(t, err)
	assert.Contains(t, fmt.Sprint(report), "frame/basis-mismatch")
	assert.Contains(t, g.stale(), "docs/i")
	assert.NotContains(t, g.stale(), "src/h")
	g.write("docs/i", "new")
	g.write("top", "new")
	g.batch(g.scan())
	assert.NotContains(t, g.stale(), "docs/i")

	broken := newRig(t, watched, `{:frame/types ["digest"] :up :none}`)
	broken.write("docs/i", "new")
	e = broken.scan()
	broken.r.agent = &agent.Agent{ID: "gone"}
	run, err := broken.r.regenerateAfter()
	require.NoError(t, err)
	_, err = run(t.Context(), e)
	require.ErrorIs(t, err, contract.OfType("agent/unknown"), "it is the error of the event")
	assert.True(t, strings.HasPrefix(broken.stale()[0], ".") && slices.Contains(broken.stale(), "docs/i"))
}
