package main

import (
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fermenthq/ferment/plugins/workspace/core"
	"github.com/fermenthq/ferment/plugins/workspace/core/derive"
	"github.com/fermenthq/ferment/plugins/workspace/core/scan"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/watch"
	"github.com/fermenthq/ferment/sdk/contract"
)

// opened is an open workspace, or one that is being opened or closed.
type opened struct {
	root    string
	data    string
	ready   chan struct{} // closed when ws, created and err are set
	ws      *core.Workspace
	engine  *derive.Engine
	created atomic.Bool // the store was created, and no request has taken this
	err     error
	uploads uploads

	watching sync.Mutex
	watch    *watch.Watcher // nil until the first request to watch
	watchers int            // requests that use watch

	// Guarded by the mutex of the hub.
	users   int
	watches int       // users that watch
	idle    time.Time // since when there are no users
}

// usable reports whether the workspace is the one that is at a place now, and its index can be
// updated. It returns true for one that is still being opened or could not be opened.
func (o *opened) usable(at place) bool {
	select {
	case <-o.ready:
	default:
		return true
	}
	return o.err != nil || o.data == at.data && o.ws.InPlace() && !o.ws.Store.Behind()
}

// openFile opens a file of the workspace. It follows no link out of the directory.
func (o *opened) openFile(path string) (io.ReadCloser, error) {
	root, err := os.OpenRoot(o.root)
	if e := scan.TooManyFiles("read", store.Shown(path), err); e != nil {
		return nil, e
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	info, err := root.Lstat(filepath.FromSlash(path))
	if err != nil {
		return nil, scan.WithoutPath(err) // the caller names the path
	}
	if !info.Mode().IsRegular() {
		return nil, contract.Errorf("generate/binary", "it is not a regular file").WithOp("read", store.Shown(path))
	}
	f, err := root.Open(filepath.FromSlash(path))
	if e := scan.TooManyFiles("read", store.Shown(path), err); e != nil {
		return nil, e
	}
	if err != nil {
		return nil, scan.WithoutPath(err)
	}
	return f, nil
}

// watcher returns the watcher of the workspace, and a function that the caller must call once it is
// done with it. The first caller decides the options.
func (o *opened) watcher(options watch.Options) (w *watch.Watcher, done func()) {
	o.watching.Lock()
	defer o.watching.Unlock()
	if o.watch == nil || o.watchers == 0 {
		o.watch = watch.New(o.ws, options)
	}
	o.watchers++
	return o.watch, func() {
		o.watching.Lock()
		defer o.watching.Unlock()
		o.watchers--
	}
}

// watchState returns the state of the watcher, the zero State if there is none.
func (o *opened) watchState() watch.State {
	o.watching.Lock()
	defer o.watching.Unlock()
	if o.watch == nil {
		return watch.State{}
	}
	return o.watch.State()
}
