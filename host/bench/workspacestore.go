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

// put puts a frame on a path, durably.
func (b *workspaceBench) put(path, frameType string, text []byte) {
	must(b.workspace.Store.Update(context.Background(), "bench", func(tx *store.Tx) error {
		_, err := tx.PutFrame(store.NewFrame{Path: path, Type: frameType, Agent: "bench", Origin: store.Authored, Text: text})
		return err
	}))
}

// filePath returns the path of a file of the tree.
func (b *workspaceBench) filePath(n int) string {
	n %= b.files
	dir := n / filesInDir
	return fmt.Sprintf("area%02d/part%02d/file%02d.go", dir/50, dir%50, n%filesInDir)
}

// writes compares durable frames of 2 KiB with an append and an fsync.
func (b *workspaceBench) writes() []row {
	const each = 40
	filling := make([]byte, 2048)
	n := 0
	next := func() (path string, text []byte) {
		n++
		return b.filePath(n), append(fmt.Appendf(nil, "%d", n), filling...)
	}
	plain := must(os.Create(b.data + ".plain"))
	defer func() { _ = plain.Close() }()
	var bare, one, sixteen []time.Duration
	for range b.rounds {
		began := time.Now()
		for range each {
			_, text := next()
			must(plain.Write(text))
			check(plain.Sync())
		}
		bare = append(bare, time.Since(began)/each)
		began = time.Now()
		for range each {
			path, text := next()
			b.put(path, "note", text)
		}
		one = append(one, time.Since(began)/each)
		var paths [16 * each]string
		var texts [16 * each][]byte
		for i := range texts {
			paths[i], texts[i] = next()
		}
		var writers sync.WaitGroup
		began = time.Now()
		for w := range 16 {
			writers.Go(func() {
				for i := range each {
					b.put(paths[w*each+i], "note", texts[w*each+i])
				}
			})
		}
		writers.Wait()
		sixteen = append(sixteen, time.Since(began)/(16*each))
	}
	return []row{
		against("put-frame of 2 KiB, durable", median(one), "append and fsync", median(bare), 4),
		against("the same, 16 writers, per frame", median(sixteen), "one writer", median(one), 0.25),
	}
}

// reads measures the head of a path and compositions, with ten frames on a path
// and one on each of its neighbours.
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
	limits := store.Limits{}.OrDefault()
	compose := func(sources ...view.Source) func() {
		return func() {
			must(view.Compose(ctx, b.workspace.Store, store.Latest, view.Request{
				Node: ref, Sources: sources, Ordering: view.Ordering{Kind: view.NewestFirst},
				MaxFrames: limits.ViewFrames, MaxBytes: limits.ViewBytes,
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
				_, err := view.Node(ctx, s, ref, view.Default(limits))
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

// validated compares the verification of the whole store with that of git.
func (b *workspaceBench) validated() row {
	b.git("", "add", "-A")
	b.git("", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x")
	var git, ours []time.Duration
	for range b.rounds {
		git = append(git, b.git("", "fsck", "--full"))
		began := time.Now()
		report := must(b.workspace.Store.Validate(context.Background(), store.Check{Level: store.Full}))
		ours = append(ours, time.Since(began))
		if !report.Valid {
			panic(fmt.Sprint("the store is not valid: ", report.Errors))
		}
	}
	return against("validate, full", median(ours), "git fsck --full", median(git), 1.5)
}

// roleWorkspace is a process that scans a workspace and waits.
const roleWorkspace = "workspace-scan"

// scanWorkspace scans a directory into an empty store, and says the bytes of its
// heap at its largest, and the number of nodes.
func scanWorkspace(root, data string) {
	done := make(chan struct{})
	largest := make(chan uint64, 1)
	go sampleHeap(done, largest)
	w := openWorkspace(root, data)
	nodes := scanOnce(w)
	close(done)
	fmt.Println(<-largest, nodes)
	_, _ = fmt.Scanln() // until it was measured
	check(w.Close())
}

// memory measures a process of its own: the heap during a cold scan, and what is
// resident after it.
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
			work: "heap during the cold scan, at most", ours: fmt.Sprintf("%.1f MiB", float64(heap)/mib),
			peer: fmt.Sprintf("32 MiB + 600 B per node %.1f MiB", limit/mib), ratio: float64(heap) / limit, goal: "<= 1.00", within: float64(heap) <= limit,
		},
		{work: "resident after the cold scan", ours: fmt.Sprintf("%.1f MiB", float64(resident)/mib), goal: "<= 200 MiB", within: resident <= 200*mib},
	}
}
