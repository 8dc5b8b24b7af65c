package derive

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/sdk/contract"
)

// WS-145: levels from the deepest, the order of priorities, a bounded number of
// calls at once, and what a failure means for the rest.
func TestManyTargets(t *testing.T) {
	files := map[string]string{"a": "1", "b": "1", "c": "1", "d/x": "1", "d/y": "1", "bin": "\x00", ".env": "x"}
	w := newWorld(t, files)
	w.settings.NeverSend = patterns(".env")
	one := func(r *GenerateRequest) { r.Concurrency = 1 }
	paths := func() (list []string) {
		for _, c := range w.calls {
			text := first(c.Input.Key("text").AsString())
			list = append(list, strings.TrimSuffix(strings.Fields(strings.TrimPrefix(strings.TrimPrefix(text, "Describe "), "the directory "))[0], ":"))
		}
		return list
	}
	_, err := w.generate(one, func(r *GenerateRequest) {
		r.Targets = []Target{{"a", Low}, {"b", ""}, {"c", Urgent}, {"d/x", Low}, {"b", High}}
	})
	require.NoError(t, err)
	assert.Equal(t, []string{"d/x", "c", "b", "a"}, paths())
	w.calls = nil
	out, err := w.generate(one, on(""), func(r *GenerateRequest) { r.Recursive = true })
	require.NoError(t, err)
	assert.Equal(t, []string{"d/y", "d", "."}, paths(), "what is there is not called again")
	assert.Equal(t, Counts{File: 1, Directory: 2, Reused: 4, Skipped: 2}, out.Counts)
	require.Equal(t, "d/y", paths()[0])

	for how, want := range map[OnFailure]Counts{
		Continue:  {Failed: 1, File: 1, Directory: 2, Reused: 3, Skipped: 2},
		StopLevel: {Failed: 1, File: 1},
		Stop:      {Failed: 1, Skipped: 1},
	} {
		w := newWorld(t, files)
		w.settings.NeverSend = patterns(".env")
		_, err := w.generate(func(r *GenerateRequest) { r.Targets = []Target{{Path: "a"}, {Path: "b"}, {Path: "c"}} })
		require.NoError(t, err)
		fail := true
		w.model = func(_ context.Context, c Call) (*Answer, error) {
			if fail {
				fail = false
				return nil, contract.Errorf("runtime/crashed", "no")
			}
			return answer("text", ""), nil
		}
		out, err := w.generate(one, on(""), func(r *GenerateRequest) { r.Recursive, r.OnFailure = true, how })
		require.NoError(t, err)
		assert.Equal(t, want, out.Counts, "%s: %v", how, out.Items)
	}
}

// WS-145: no more calls of an agent run at once than allowed, also of several
// requests, and equal ones are joined.
func TestConcurrencyOfCalls(t *testing.T) {
	files := map[string]string{}
	for i := range 12 {
		files[fmt.Sprint("f", i)] = fmt.Sprint(i)
	}
	w := newWorld(t, files)
	var now, most atomic.Int64
	release := make(chan struct{})
	var once sync.Once
	w.model = func(context.Context, Call) (*Answer, error) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		if n == 3 { // as many as are allowed: let them go on
			once.Do(func() { close(release) })
		}
		<-release
		return answer("text", ""), nil
	}
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			_, err := w.generate(on(""), func(r *GenerateRequest) { r.Recursive, r.Producer = true, FromModel })
			assert.NoError(t, err)
		})
	}
	all.Wait()
	assert.Equal(t, int64(3), most.Load())
	assert.Len(t, w.calls, 13, "each once: 12 files and the root")
}

// WS-145: requests that allow different numbers of calls share those of an agent: none
// begins a call while as many run as it allows.
func TestConcurrencyOfDifferentSizes(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var l limiter
	enter := func(n int) func() {
		t.Helper()
		leave, err := l.enter(ctx, "writer", n)
		require.NoError(t, err)
		return leave
	}
	full := func(n int) {
		t.Helper()
		ended, end := context.WithCancel(ctx)
		end()
		_, err := l.enter(ended, "writer", n)
		require.ErrorIs(t, err, context.Canceled)
	}
	leave := []func(){enter(3), enter(4), enter(3)}
	full(3)
	leave = append(leave, enter(4))
	full(4)
	full(3)
	leave[0]()
	full(3)
	leave = append(leave, enter(4))
	entered := make(chan error)
	go func() {
		done, err := l.enter(ctx, "writer", 3)
		if err == nil {
			done()
		}
		entered <- err
	}()
	leave[1]()
	leave[2]()
	require.NoError(t, <-entered, "it is woken when enough have left")
	cancel()
}

// Without a model every text gets a description, Go its outline, other files
// facts, and directories a summary of what is in them; a later regeneration
// keeps it current. Nothing is called.
func TestGenerateWithoutAModel(t *testing.T) {
	w := newWorld(t, map[string]string{
		"main.go":       "// Command x says hello.\npackage main\n\nfunc main() {}\n",
		"README.md":     "# The x\n\nIt says hello.\n",
		"img/p.png":     "\x89PNG\r\n\x1a\n\x00\x00",
		"lib/broken.go": "package lib\nfunc {",
		"lib/lib.go":    "// Package lib greets.\npackage lib\n\n// Hello returns a greeting. It is polite.\nfunc Hello() string { return \"\" }\n",
	})
	all := func(r *GenerateRequest) { r.Model, r.Type, r.Targets, r.Recursive = "", "", []Target{{}}, true }
	out, err := w.generate(all)
	require.NoError(t, err)
	assert.Equal(t, Counts{File: 5, Directory: 3}, out.Counts)
	assert.Empty(t, w.calls)
	kind := "context-writer"
	assert.Equal(t, "Go package lib, 5 lines, 1 exported name: Package lib greets.\n\nexports:\nfunc Hello: Hello returns a greeting.\n", first(w.text("lib/lib.go", kind)))
	assert.Equal(t, "binary data, 10 bytes.\n", strings.Replace(first(w.text("img/p.png", kind)), "PNG image", "binary data", 1))
	root, state := w.text("", kind)
	assert.Equal(t, "fresh", state)
	lines := strings.Split(root, "\n")
	assert.Regexp(t, `^4 entries described: 2 directories, 2 files; \d+ bytes in 4 frames\.$`, lines[0])
	assert.Regexp(t, `^file README\.md \(context-writer, \d+ bytes\): Markdown, 3 lines: The x$`, lines[1])
	assert.Regexp(t, `^dir img/ .*: 1 entry described: 0 directories, 1 file`, lines[2])
	assert.Regexp(t, `^file main\.go .*: Go package main, 4 lines, 0 exported names: Command x says hello\.$`, lines[4])
	again, err := w.generate(all)
	require.NoError(t, err)
	assert.Equal(t, Counts{Reused: 8}, again.Counts)
	assert.Equal(t, out.Seq, again.Seq)
	w.edit("lib/lib.go", "package lib\n")
	assert.Equal(t, Counts{File: 1, Directory: 2}, w.regenerate("").Counts)
	w.edit("lib/new.go", "package lib\n")
	next, err := w.generate(all)
	require.NoError(t, err)
	assert.Equal(t, Counts{File: 1, Directory: 2, Reused: 6}, next.Counts)
	w.note("lib/new.go", kind, "written by hand")
	kept, err := w.generate(all)
	require.NoError(t, err)
	assert.Equal(t, "written by hand", first(w.text("lib/new.go", kind)), "a fresh frame is left alone")
	assert.Equal(t, 2, kept.Counts.Directory)
}
