package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/plugins/workspace/core/derive"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/edn"
)

// maker returns an engine that derives frames of the tree.
func (b *workspaceBench) maker() *derive.Engine {
	agents := must(agent.New(nil, func(string) bool { return true }))
	return derive.New(derive.Options{
		Store: b.workspace.Store,
		Open: func(path string) (io.ReadCloser, error) {
			return os.Open(filepath.Join(b.root, path))
		},
		Agents: func() *agent.Set { return agents },
		Now:    func() int64 { return time.Now().UnixNano() },
	})
}

// derived measures the synthesis of the whole tree, with a frame on one file per directory, and the
// regeneration after a change of one file.
func (b *workspaceBench) derived() []row {
	e, ctx := b.maker(), context.Background()
	changed := b.changed()
	by := derive.Caller{Agent: "synthesis"}
	var whole, again, puts []time.Duration
	b.scan()                          // commits the changes of earlier parts
	for round := range b.rounds + 1 { // the first round warms up
		frames := fmt.Sprint("digest", round)
		must(b.workspace.Store.Update(ctx, "bench", func(tx *store.Tx) error {
			for n := 0; n < b.files; n += filesInDir {
				_, err := tx.PutFrame(store.NewFrame{
					Path: b.filePath(n), Type: frames, Agent: "writer", Origin: store.Authored, Text: fmt.Append(nil, "about ", n), Recipe: edn.MustMap(),
				})
				if err != nil {
					return err
				}
			}
			return nil
		}))
		must(e.Generate(ctx, derive.GenerateRequest{Caller: by, Targets: []derive.Target{{Path: changed}}, Type: frames, Producer: "extract/text"}))
		began := time.Now()
		must(e.Synthesize(ctx, derive.SynthesizeRequest{
			Caller: by, Type: frames, Policy: edn.K("summarize"), Children: store.ChildrenBuild,
		}))
		if took := time.Since(began); round > 0 {
			whole = append(whole, took)
		}
		for i := range 4 {
			b.changeOne(100_000 + 10*round + i) // text that the file never had before
			b.scan()
			began = time.Now()
			done := must(e.Regenerate(ctx, derive.RegenerateRequest{Caller: by, Recursive: true, Types: []string{frames}}))
			remade := time.Since(began)
			if c := done.Counts; c.File != 1 || c.Directory != b.depth()+1 {
				panic(fmt.Sprintf("after one change %d files and %d directories were made", c.File, c.Directory))
			}
			began = time.Now()
			for k := range b.depth() + 2 {
				b.put(b.filePath(1000*round+100*i+k), "single", fmt.Append(nil, round, i, k))
			}
			if put := time.Since(began); round > 0 {
				again, puts = append(again, remade), append(puts, put)
			}
		}
	}
	return []row{
		against("synthesize the whole tree of "+b.size(), median(whole), "cold scan", b.coldScan, b.goal(1)).of("WS-249", 0.5),
		against(fmt.Sprintf("regenerate after one change at depth %d", b.depth()), median(again),
			fmt.Sprintf("%d put-frames", b.depth()+2), median(puts), b.goal(1)).of("WS-246", 0.3),
	}
}

// crowded compares putting a frame on a node with very many frames with putting one on a node with
// few.
func (b *workspaceBench) crowded() row {
	const many, each = 20_000, 20
	ctx := context.Background()
	must(b.workspace.Store.Update(ctx, "bench", func(tx *store.Tx) error {
		for i := range many {
			_, err := tx.PutFrame(store.NewFrame{Path: b.filePath(0), Type: "many", Agent: "bench", Origin: store.Authored, Text: fmt.Append(nil, i)})
			if err != nil {
				return err
			}
		}
		return nil
	}))
	b.put(b.filePath(0), "many", []byte("the first after others reads the node"))
	var crowd, alone []time.Duration
	for round := range 4 * b.rounds {
		for i, took := range []*[]time.Duration{&crowd, &alone} {
			began := time.Now()
			for n := range each {
				b.put(b.filePath(i), "many", fmt.Append(nil, "more ", round, n))
			}
			*took = append(*took, time.Since(began)/each)
		}
	}
	return against(fmt.Sprintf("put-frame on a node of %d frames", many), median(crowd), "put-frame on a node of few", median(alone), 1.25).of("WS-013", 0)
}

// workspaceSite is a configuration for one workspace.
const workspaceSite = `ferment {
  profile  = "dev"
  data_dir = "var"
}

plugin "workspace" {
  command = ["BIN/plugins/workspace"]

  isolation {
    read_paths  = ["ROOT"]
    write_paths = ["ROOT/.ferment"]
  }

  config {
    allowed_roots = ["ROOT"]
  }
}

effects {
  scope "db/read" { enabled = true }

  scope "db/write" { enabled = true }
}
`

// commanded compares a warm scan through command line, daemon and plugin with git status.
func (b *workspaceBench) commanded() row {
	site := must(newDaemonSite(strings.ReplaceAll(workspaceSite, "ROOT", b.root)))
	defer site.close()
	check(os.MkdirAll(filepath.Join(b.root, ".ferment"), 0o755))
	daemon, _, err := site.serve()
	check(err)
	scan := func() time.Duration {
		cmd := exec.Command(site.ferment, "workspace", "scan", "--workspace", b.root, "--quiet")
		cmd.Dir, cmd.Env = site.dir, site.env
		began := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			panic(fmt.Sprintf("ferment workspace scan: %v\n%s", err, out))
		}
		return time.Since(began)
	}
	scan() // the cold scan
	var git, ours []time.Duration
	for round := range b.rounds + 1 {
		g, o := b.git("", "status", "--porcelain"), scan()
		if round > 0 { // the first round warms up
			git, ours = append(git, g), append(ours, o)
		}
	}
	must(daemon.stop())
	return against(fmt.Sprintf("warm scan of %d files by command line, host and plugin", b.files), median(ours), "git status", median(git), b.goal(1.5)).of("WS-243", 1)
}
