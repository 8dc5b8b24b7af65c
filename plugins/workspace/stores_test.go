package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fermenthq/ferment/plugins/workspace/core"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// WS-049: however many workspaces a process serves, a limited number of stores stays open: those
// without requests are closed, the least recently used first, and opened again for a request. The
// store of a directory that is gone is closed without a request.
func TestStoresThatStayOpen(t *testing.T) {
	root := t.TempDir()
	cfg := defaults
	cfg.AllowedRoots, cfg.DefaultAgent = []string{root}, "synthesis"
	s := newServer()
	now := time.Now()
	s.now = func() time.Time { now = now.Add(time.Second); return now }
	require.NoError(t, s.start(t.Context(), cfg))
	t.Cleanup(func() { assert.NoError(t, s.close(context.Background())) })
	h := s.run.Load().hub
	h.stores = 3
	call := func(intent, dir string) {
		t.Helper()
		_, err := s.serve(t.Context(), s.table[intent], edn.MustMap(edn.K("workspace"), edn.Text(dir)), nil)
		require.NoError(t, err)
	}
	open := func() (list []string) {
		for _, o := range h.idle() {
			list = append(list, filepath.Base(o.root))
		}
		return list
	}
	var dirs []string
	for i := range 8 {
		dir := filepath.Join(root, fmt.Sprint(i))
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o600))
		call("workspace/scan", dir)
		dirs = append(dirs, dir)
	}
	assert.Equal(t, []string{"5", "6", "7"}, open())
	call("workspace/status", dirs[5])
	call("workspace/status", dirs[0])
	assert.Equal(t, []string{"7", "5", "0"}, open())

	require.NoError(t, os.RemoveAll(dirs[5]))
	h.sweep(time.Hour * 24)
	assert.Equal(t, []string{"7", "0"}, open())

	h.stores = 8
	for _, dir := range append(dirs[:5:5], dirs[6:]...) {
		call("workspace/status", dir)
	}
	require.Len(t, open(), 7)
	h.mu.Lock()
	_, err := h.open[dirs[0]].uploads.add("b3:1", 0, []byte("part"))
	h.mu.Unlock()
	require.NoError(t, err)
	h.stores = 2 // as if requests that came together had opened more than the bound
	h.sweep(time.Hour * 24)
	assert.Equal(t, []string{"0", "7"}, open(), "one with an unfinished upload stays open")
	assert.Positive(t, storeLimit())
}

// WS-042, WS-046, WS-047: a store whose index could not be written is opened again by the next
// request, although others use it; a store that cannot be opened for writing can be read.
func TestStoreIsOpenedAgainAfterFailure(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "top.txt"), []byte("x"), 0o600))
	cfg := defaults
	cfg.AllowedRoots, cfg.DefaultAgent = []string{root}, "synthesis"
	s := newServer()
	require.NoError(t, s.start(t.Context(), cfg))
	t.Cleanup(func() { assert.NoError(t, s.close(context.Background())) })
	h := s.run.Load().hub
	call := func(intent, input string) error {
		_, err := s.serve(t.Context(), s.table[intent], edn.MustRead(input), nil)
		return err
	}
	require.NoError(t, call("workspace/scan", `{}`))
	require.NoError(t, call("context/put-frame", putNote))
	at, err := h.locate("")
	require.NoError(t, err)
	h.release(at)

	options := h.options(at, "")
	options.Store.Faults.Before = func(op string) error {
		if op == "index/commit" {
			return syscall.ENOSPC
		}
		return nil
	}
	o := &opened{root: at.root, data: at.data, ready: make(chan struct{})}
	o.ws, err = core.Open(t.Context(), at.root, options)
	require.NoError(t, err)
	h.derive(o)
	close(o.ready)
	h.open[at.root] = o
	_, leave, err := h.acquire(t.Context(), "", existing, "") // such as a watch
	require.NoError(t, err)
	defer leave()
	_, err = o.ws.Store.Compact(t.Context(), "x", store.Compaction{Keep: 1})
	require.ErrorIs(t, err, syscall.ENOSPC)
	_, err = o.ws.Store.Update(t.Context(), "x", nil)
	require.ErrorIs(t, err, contract.OfType("store/read-only"))
	require.NoError(t, call("context/put-frame", `{:path "top.txt" :frame/type "note" :content "after"}`))
	require.NoError(t, call("workspace/validate", `{}`))

	h.release(at)
	seal := filepath.Join(at.data, "seal")
	require.NoError(t, os.Remove(seal))
	require.NoError(t, os.MkdirAll(filepath.Join(seal, "x"), 0o700)) // cannot be removed: no store is opened for writing
	require.NoError(t, call("context/get-head", `{:path "top.txt" :frame/type "note"}`))
	require.ErrorIs(t, call("context/put-frame", putNote), contract.OfType("store/io"))
	require.NoError(t, os.RemoveAll(seal))
	require.NoError(t, call("context/put-frame", putNote))
}
