package storetest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/edn"
)

// World is a store of a test.
type World struct {
	*store.Store
	T   testing.TB
	Dir string // the data directory
	// Now is the time of the next transaction, in nanoseconds since 1970.
	Now int64
}

// Open creates a store and closes it when the test ends.
func Open(t testing.TB, scheme id.Scheme) *World {
	t.Helper()
	w := &World{T: t, Dir: store.DataDir(t.TempDir()), Now: 1}
	w.must(store.Create(w.Dir, store.Identity{ID: "w1", Scheme: scheme.String()}))
	var err error
	w.Store, err = store.Open(context.Background(), w.Dir, store.Options{Now: func() int64 { return w.Now }, Unsynced: true})
	w.must(err)
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func (w *World) must(err error) {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
}

// Grow returns a tree with files by path and text. A path that ends in a slash
// is an empty directory; a text that begins with "link:" is the target of a link,
// one with "exec:" makes the file executable.
func Grow(scheme id.Scheme, files map[string]string) *tree.Tree {
	t := &tree.Tree{Scheme: scheme, Root: &tree.Node{Mode: id.Dir}}
	for path, text := range files {
		at := t.Root
		parts := strings.Split(path, "/")
		for _, name := range parts[:len(parts)-1] {
			next := at.Child(name)
			if next == nil {
				next = &tree.Node{Name: name, Mode: id.Dir}
				at.Children = append(at.Children, next)
				at.Sort()
			}
			at = next
		}
		if name := parts[len(parts)-1]; name != "" {
			at.Children = append(at.Children, leaf(scheme, path, name, text))
			at.Sort()
		}
	}
	seal(t, "", t.Root)
	return t
}

func leaf(scheme id.Scheme, path, name, text string) *tree.Node {
	mode := id.File
	if target, ok := strings.CutPrefix(text, "link:"); ok {
		mode, text = id.Link, target
	} else if strings.HasPrefix(text, "exec:") {
		mode = id.Exec
	}
	content := scheme.Bytes([]byte(text))
	return &tree.Node{Name: name, Mode: mode, Size: int64(len(text)), Content: content, ID: scheme.Node(path, mode, content)}
}

func seal(t *tree.Tree, path string, n *tree.Node) {
	for _, c := range n.Children {
		if c.Mode == id.Dir {
			seal(t, tree.Join(path, c.Name), c)
		}
	}
	t.Seal(path, n)
}

// Tree makes a tree with these files the current one and returns the sequence
// number.
func (w *World) Tree(files map[string]string) uint64 {
	w.T.Helper()
	seq, err := w.Update(context.Background(), "tester", func(tx *store.Tx) error {
		_, err := tx.PutTree(Grow(w.Scheme, files))
		return err
	})
	w.must(err)
	return seq
}

// Put puts a frame on the current state of a path. By default it is an authored
// one by the agent writer, based on the node.
func (w *World) Put(path, frameType, text string, change ...func(*store.NewFrame)) *store.Frame {
	w.T.Helper()
	var p *store.Put
	_, err := w.Update(context.Background(), "tester", func(tx *store.Tx) error {
		t, err := tx.Tree()
		if err != nil {
			return err
		}
		n := store.NewFrame{
			Path: path, Type: frameType, Agent: "writer", Origin: store.Authored, Text: []byte(text), Recipe: edn.MustMap(), Meta: edn.MustMap(),
		}
		if node := t.Lookup(path); node != nil {
			n.Inputs = []store.Input{{Kind: id.InputNode, ID: node.ID}}
		}
		for _, c := range change {
			c(&n)
		}
		p, err = tx.PutFrame(n)
		return err
	})
	w.must(err)
	return p.Frame
}

// Read runs a function with the current state.
func (w *World) Read(read func(*store.Snapshot) error) {
	w.T.Helper()
	w.must(w.View(context.Background(), store.Latest, read))
}

// Log returns the bytes of the log, for tests that check that a read does not change it.
func (w *World) Log() string {
	w.T.Helper()
	var all strings.Builder
	names, err := filepath.Glob(filepath.Join(w.Dir, "log", "*"))
	w.must(err)
	for _, name := range names {
		b, err := os.ReadFile(name)
		w.must(err)
		all.Write(b)
	}
	return all.String()
}
