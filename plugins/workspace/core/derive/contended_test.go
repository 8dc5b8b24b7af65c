package derive

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/contract"
)

// WS-116: several requests at once make each frame once; others find it.
func TestConcurrentRegenerations(t *testing.T) {
	files := map[string]string{}
	for i := range 30 {
		files[fmt.Sprintf("d%d/e/f%d", i%5, i)] = "1"
	}
	w := newWorld(t, files)
	w.whole(nil, store.BindsNode)
	for p := range files {
		files[p] = "2"
	}
	w.scan(files)
	reads := w.reads.Load()
	var mu sync.Mutex
	var total Counts
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			path := []string{"", "d1", "", "d2/e", "", "d3", "d4", ""}[n]
			out, err := w.Regenerate(background, RegenerateRequest{Caller: synthesis, Path: path, Recursive: true})
			if !assert.NoError(t, err) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			total.File += out.Counts.File
			total.Directory += out.Counts.Directory
			total.Failed += out.Counts.Failed
		})
	}
	all.Wait()
	assert.Equal(t, Counts{File: 30, Directory: 11}, total)
	assert.Equal(t, reads+30, w.reads.Load(), "each file was read once")
	for _, h := range w.heads() {
		assert.Contains(t, h, "fresh")
	}
}

// WS-116: if the inputs move before the commit, the work is done again; if they
// never rest, the request fails and nothing is written.
func TestMovingInputs(t *testing.T) {
	moves := 0
	w := newWorld(t, map[string]string{"a": "1", "b": "1"})
	w.whole(nil, store.BindsNode)
	left := 2
	w.onRead = func(path string) {
		if path == "a" && left > 0 {
			left--
			moves++
			w.edit("b", fmt.Sprint("moved ", moves))
		}
	}
	w.edit("a", "2")
	out := w.regenerate("")
	assert.Equal(t, Counts{File: 2, Directory: 1}, out.Counts)
	assert.Equal(t, 2, moves)
	for _, h := range w.heads() {
		assert.Contains(t, h, "fresh")
	}
	left = 1 << 20
	w.edit("a", "3")
	before := w.heads()
	_, err := w.Regenerate(background, RegenerateRequest{Caller: synthesis, Recursive: true})
	typed(t, err, "regenerate/contended")
	assert.True(t, contract.AsError(err).Retryable)
	left = 0
	for name, h := range w.heads() {
		assert.Equal(t, strings.Fields(before[name])[0], strings.Fields(h)[0], "%s has another frame", name)
	}
}

// WS-114: all deterministic frames of a request are one transaction; a cancelled
// request leaves none of them.
func TestOneTransaction(t *testing.T) {
	w := newWorld(t, map[string]string{"a/b/c": "1", "d": "1"})
	w.whole(nil, store.BindsNode)
	seq := w.scan(map[string]string{"a/b/c": "2", "d": "2"})
	before := w.heads()
	ctx, cancel := context.WithCancel(background)
	w.onRead = func(string) { cancel() }
	_, err := w.Regenerate(ctx, RegenerateRequest{Caller: synthesis, Recursive: true})
	typed(t, err, "canceled")
	assert.Equal(t, before, w.heads())
	w.onRead = nil
	out := w.regenerate("")
	assert.Equal(t, seq+1, out.Seq)
	assert.Equal(t, Counts{File: 2, Directory: 3}, out.Counts)
}
