package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/view"
)

// put durably puts a frame on a path.
func (b *workspaceBench) put(path, frameType string, text []byte) {
	must(b.workspace.Store.Update(context.Background(), "bench", func(tx *store.Tx) error {
		_, err := tx.PutFrame(store.NewFrame{Path: path, Type: frameType, Agent: "bench", Origin: store.Authored, Text: text})
		return err
	}))
}

// writes compares durable frames of 2 KiB through the engine with an append and an fsync.
func (b *workspaceBench) writes() []row {
	return b.durable("engine: ", "", func(path string, text []byte) { b.put(path, "note", text) })
}

// writers is the number of concurrent writers.
const writers = 16

// durable compares put, which puts one frame, with an append and an fsync, for one caller and for
// many. id is the requirement that sets the goals; empty if there are no goals.
func (b *workspaceBench) durable(prefix, id string, put func(path string, text []byte)) []row {
	const each = 40
	filling := make([]byte, 2048)
	for i := range filling {
		filling[i] = byte(' ' + i%90)
	}
	n := 0
	next := func() (path string, text []byte) {
		n++
		return b.filePath(n), append(fmt.Appendf(nil, "%d", n), filling...)
	}
	plain := must(os.Create(b.data + ".plain"))
	defer func() { _ = plain.Close() }()
	rounds := [3]func(){
		func() {
			for range each {
				_, text := next()
				must(plain.Write(text))
				check(plain.Sync())
			}
		},
		func() {
			for range each {
				put(next())
			}
		},
		func() {
			var group sync.WaitGroup
			for range writers {
				paths, texts := [each]string{}, [each][]byte{}
				for i := range each {
					paths[i], texts[i] = next()
				}
				group.Go(func() {
					for i := range each {
						put(paths[i], texts[i])
					}
				})
			}
			group.Wait()
		},
	}
	var took [3][]time.Duration
	for round := range b.rounds + 1 { // the first round warms up
		for i, run := range rounds {
			began := time.Now()
			run()
			if d := time.Since(began) / each; round > 0 {
				took[i] = append(took[i], d)
			}
		}
	}
	bare, one, many := median(took[0]), median(took[1]), median(took[2])/writers
	goals := [2]float64{4, 4}
	if id == "" {
		goals = [2]float64{}
	}
	return []row{
		against(prefix+"put-frame of 2 KiB, durable", one, "append and fsync", bare, goals[0]).of(id, 2.5),
		atRate(fmt.Sprintf("%sthe same, %d writers, per frame", prefix, writers), many, "one writer", one, goals[1]).of(id, 8),
	}
}

// reads measures reading the head of a path and composing frames, with ten frames on a path and one
// on each of its siblings.
func (b *workspaceBench) reads() []row {
	for i := range 10 {
		b.put(b.filePath(0), fmt.Sprint("type", i), []byte(strings.Repeat("text of a frame ", 64+i)))
	}
	var crowd []store.Ref
	for i := range 10 {
		path := b.filePath((i + 1) * filesInDir)
		crowd = append(crowd, store.Ref{Path: path})
		for k := range 10 {
			b.put(path, fmt.Sprint("type", k), []byte(strings.Repeat("text of a frame ", 64+k)))
		}
	}
	for i := range filesInDir - 1 {
		b.put(b.filePath(i+1), "type0", []byte(strings.Repeat("text of another ", 64+i)))
	}
	ctx := context.Background()
	ref := store.Ref{Path: b.filePath(0)}
	seen := func(read func(*store.Snapshot) error) {
		check(b.workspace.Store.View(ctx, store.Latest, read))
	}
	compose := func(sources ...view.Source) func() {
		return func() {
			must(view.Compose(ctx, b.workspace.Store, store.Latest, view.Request{
				Node: ref, Sources: sources, Ordering: view.Ordering{Kind: view.NewestFirst},
				MaxFrames: view.DefaultFrames, MaxBytes: view.DefaultBytes,
			}, nil))
		}
	}
	took := alternate(pace{rounds: b.rounds, calls: 20},
		func() { seen(func(*store.Snapshot) error { return nil }) },
		func() {
			seen(func(s *store.Snapshot) error {
				_, err := view.Head(ctx, s, ref, "type0")
				return err
			})
		},
		func() {
			seen(func(s *store.Snapshot) error {
				_, err := view.Node(ctx, s, ref, view.Default())
				return err
			})
		},
		compose(view.Source{Kind: view.Current}),
		compose(view.Source{Kind: view.Current}, view.Source{Kind: view.Siblings}),
		compose(view.Source{Kind: view.Related, Nodes: crowd}),
	)
	return []row{
		atMost("get-head by path", took[1], 50*time.Microsecond),
		against("get-node by path, 10 frames with text", took[2], "empty view", took[0], 0),
		against("compose 10 frames of a node", took[3], "get-node", took[2], 0),
		against("compose those of its 19 siblings too", took[4], "get-node", took[2], 0),
		atMost("compose 100 frames of 10 nodes", took[5], 5*time.Millisecond),
	}
}

// validated compares the full validation of the store with git fsck.
func (b *workspaceBench) validated() row {
	b.git("", "add", "-A")
	b.git("", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x")
	var git, ours []time.Duration
	for round := range b.rounds + 1 { // the first round warms up
		theirs := b.git("", "fsck", "--full")
		began := time.Now()
		report := must(b.workspace.Store.Validate(context.Background(), store.Check{Level: store.Full}))
		if took := time.Since(began); round > 0 {
			git, ours = append(git, theirs), append(ours, took)
		}
		if !report.Valid {
			panic(fmt.Sprint("the store is not valid: ", report.Errors))
		}
	}
	return against("validate, full", median(ours), "git fsck --full", median(git), 1.5).of("WS-250", 1)
}

// roleWorkspace is the role of a child process that scans a workspace and waits.
const roleWorkspace = "workspace-scan"

// scanWorkspace scans a directory into an empty store, prints the maximum size of its heap in bytes
// and the number of nodes, and waits for a line of input.
func scanWorkspace(root, data string) {
	done := make(chan struct{})
	largest := make(chan uint64, 1)
	go sampleHeap(done, largest)
	w := openWorkspace(root, data)
	nodes := scanOnce(w)
	close(done)
	fmt.Println(<-largest, nodes)
	_, _ = fmt.Scanln() // until the parent has measured this process
	check(w.Close())
}

// memory measures a child process: its maximum heap during a cold scan, and its resident memory
// after it.
func (b *workspaceBench) memory() []row {
	cmd := exec.Command(must(os.Executable()), roleWorkspace, b.root, b.data+".memory")
	in, out := must(cmd.StdinPipe()), must(cmd.StdoutPipe())
	cmd.Stderr = os.Stderr
	check(cmd.Start())
	var heap, nodes uint64
	must(fmt.Fscan(out, &heap, &nodes))
	resident := must(residentOf(cmd.Process.Pid))
	check(in.Close())
	check(cmd.Wait())
	const mib = 1 << 20
	limit := 32*mib + 600*float64(nodes)
	return []row{
		{
			id: "WS-253", work: "heap during the cold scan, at most", ours: fmt.Sprintf("%.1f MiB", float64(heap)/mib),
			peer: fmt.Sprintf("32 MiB + 600 B per node %.1f MiB", limit/mib), ratio: float64(heap) / limit, goal: "<= 1.00", within: float64(heap) <= limit,
		},
		{
			id: "WS-253", work: "resident after the cold scan", ours: fmt.Sprintf("%.1f MiB", float64(resident)/mib),
			goal: "<= 200 MiB", within: resident <= 200*mib,
		},
	}
}
