package main

import (
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sys/unix"
	"lukechampine.com/blake3"

	"github.com/fermenthq/ferment/plugins/workspace/core"
	"github.com/fermenthq/ferment/plugins/workspace/core/agent"
	"github.com/fermenthq/ferment/plugins/workspace/core/derive"
	"github.com/fermenthq/ferment/plugins/workspace/core/git"
	"github.com/fermenthq/ferment/plugins/workspace/core/scan"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Bounds of a hub.
const (
	maxConcurrent = 64          // requests that a workspace answers at a time, without watches (WS-230)
	maxWatches    = 1024        // watches that a workspace serves at a time
	lockPatience  = time.Second // wait for a process that is about to release a store
	lockRetry     = 20 * time.Millisecond
	closePatience = 200 * time.Millisecond // wait for the end of a workspace that was moved

	// a store uses 9 file descriptors, and 2 more per concurrent reader
	descriptorsOfStore = 16
	maxStores          = 256
	maxSweep           = 15 * time.Second // between two sweeps
)

// storeLimit returns the maximum number of open workspaces without users. It is chosen so that
// their stores use at most three quarters of the file descriptors of the process.
func storeLimit() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 1
	}
	return int(min(max(limit.Cur/4*3/descriptorsOfStore, 1), maxStores))
}

// hub holds the open workspaces of the process. They share nothing but this map
// (WS-049).
type hub struct {
	life       context.Context // opens workspaces: what one request began, others wait for
	cfg        settings
	derivation derive.Settings
	agents     *agent.Set
	invoke     derive.Invoke
	now        func() time.Time
	log        *slog.Logger
	rebuilt    func() // called for each index that was rebuilt; may be nil
	git        git.Environment
	stores     int // number of open workspaces above which those without users are closed

	mu       sync.Mutex
	open     map[string]*opened // by root
	byID     map[string]string  // workspace id to root, of workspaces that were open
	closed   bool
	draining bool           // another process waits for the stores
	moved    sync.WaitGroup // workspaces that removeUnusable closes
}

func newHub(life context.Context, cfg settings, agents *agent.Set, invoke derive.Invoke, now func() time.Time,
	log *slog.Logger) *hub {
	return &hub{
		life:       life,
		cfg:        cfg,
		derivation: cfg.derivation(),
		agents:     agents,
		invoke:     invoke,
		now:        now,
		log:        log,
		git:        git.EnvironmentOf(os.Getenv),
		stores:     storeLimit(),
		open:       map[string]*opened{},
		byID:       map[string]string{},
	}
}

// place holds the directory of a workspace and the data directory of its store.
type place struct{ root, data string }

// locate returns the place of the workspace with a name: a directory, the id of a
// workspace that was open before, or nothing if only one directory is allowed.
func (h *hub) locate(name string) (place, error) {
	if name == "" {
		if len(h.cfg.AllowedRoots) != 1 {
			return place{}, invalid(edn.Vector(edn.K("workspace")), "the workspace must be named: %d directories are allowed", len(h.cfg.AllowedRoots))
		}
		name = h.cfg.AllowedRoots[0]
	}
	root, err := scan.Resolve(name, h.cfg.AllowedRoots)
	if err != nil {
		// The host makes every relative path absolute, so an id is its last part.
		if known := h.rootOf(filepath.Base(name)); known != "" {
			root, err = scan.Resolve(known, h.cfg.AllowedRoots)
		}
	}
	if err != nil {
		return place{}, err
	}
	return place{root: root, data: h.dataDir(root)}, nil
}

var workspaceID = regexp.MustCompile(`^[0-9A-HJKMNP-TV-Z]{26}$`)

func (h *hub) rootOf(id string) string {
	if !workspaceID.MatchString(id) {
		return ""
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.byID[id]
}

// dataDir returns the data directory of a workspace. If the setting data_dir is set and the
// directory of the workspace has no store, it lies below data_dir, otherwise in the directory of
// the workspace.
func (h *hub) dataDir(root string) string {
	inside := store.DataDir(root)
	if h.cfg.DataDir == "" {
		return inside
	}
	if have, err := store.Exists(inside); have && err == nil {
		return inside
	}
	sum := blake3.Sum256([]byte(root))
	return filepath.Join(h.cfg.DataDir, filepath.Base(root)+"-"+hex.EncodeToString(sum[:8]))
}

// nearest returns the nearest directory above a workspace that has a store; empty if there is none
// below the allowed roots.
func (h *hub) nearest(root string) string {
	for at := filepath.Dir(root); ; at = filepath.Dir(at) {
		if _, err := scan.Resolve(at, h.cfg.AllowedRoots); err != nil {
			return ""
		}
		if have, err := store.Exists(h.dataDir(at)); have && err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}

// storeAt returns an error unless there is a store at a place.
func (h *hub) storeAt(at place) error {
	have, err := store.Exists(at.data)
	if err == nil && !have {
		err = h.notFound(at)
	}
	return err
}

// notFound is the error of a directory without a store. Its detail :nearest is the
// directory above that has one (WS-181).
func (h *hub) notFound(at place) error {
	err := contract.Errorf("workspace/not-found", "the directory has no workspace").WithOp("workspace", at.root)
	if above := h.nearest(at.root); above != "" {
		return err.WithDetail("nearest", edn.Text(above)).WithHint("name the workspace " + above + ", which the directory belongs to")
	}
	return err.WithHint("run `ferment workspace scan` or `ferment workspace init`")
}

// acquire returns the open workspace with a name, and opens it if necessary. It blocks until the
// workspace is open or ctx ends. The caller must call the returned function to release it.
func (h *hub) acquire(ctx context.Context, name string, how opening, scheme string) (*opened, func(), error) {
	at, err := h.locate(name)
	if err != nil {
		return nil, nil, err
	}
	h.removeUnusable(at)
	o, first, err := h.enter(at)
	if err != nil {
		return nil, nil, err
	}
	release := func() { h.leave(o) }
	if first {
		go h.load(o, at, how, scheme)
	}
	select {
	case <-o.ready:
	case <-ctx.Done():
		release()
		return nil, nil, contract.AsError(context.Cause(ctx))
	}
	if o.err == nil {
		return o, release, nil
	}
	release()
	// The request that opened it may be one that creates no store.
	notCreated := !first && how == creating && errors.Is(o.err, contract.OfType("workspace/not-found"))
	if notCreated || errors.Is(o.err, errAgain) {
		return h.acquire(ctx, name, how, scheme)
	}
	return nil, nil, o.err
}

// acquirePatient is acquire for a request that writes. If another process has locked the store, it
// retries for up to lockPatience, because the previous process of the plugin may still be ending.
func (h *hub) acquirePatient(ctx context.Context, name string, how opening, scheme string) (*opened, func(), error) {
	until := time.NewTimer(lockPatience)
	defer until.Stop()
	for {
		o, release, err := h.acquire(ctx, name, how, scheme)
		if !errors.Is(err, contract.OfType("store/locked")) {
			return o, release, err
		}
		again := time.NewTimer(lockRetry)
		select {
		case <-again.C:
		case <-until.C:
			again.Stop()
			return nil, nil, err
		case <-ctx.Done():
			again.Stop()
			return nil, nil, err
		}
	}
}

// follow opens a workspace for one request that only reads, while another process
// writes it.
func (h *hub) follow(ctx context.Context, name string) (*opened, func(), error) {
	at, err := h.locate(name)
	if err != nil {
		return nil, nil, err
	}
	o := &opened{root: at.root, data: at.data}
	if o.ws, err = core.Follow(ctx, at.root, h.options(at, "")); err != nil {
		return nil, nil, err
	}
	h.derive(o)
	return o, func() { _ = o.ws.Close() }, nil
}

// errAgain is the error of a workspace that was kept closed and may be opened now.
var errAgain = errors.New("the workspace was kept closed")

// whileClosed runs a function while the workspace stays closed, and reports
// whether it ran: it does not if a request uses the workspace. One that is open
// without users is closed first.
func (h *hub) whileClosed(at place, run func() error) (ran bool, err error) {
	h.removeUnusable(at)
	h.mu.Lock()
	old := h.open[at.root]
	if old != nil && old.users > 0 || h.closed {
		h.mu.Unlock()
		return false, nil
	}
	o := &opened{root: at.root, data: at.data, ready: make(chan struct{}), err: errAgain}
	h.open[at.root] = o
	h.mu.Unlock()
	if old != nil {
		_ = h.seal(old) // it is logged
	}
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.open[at.root] == o { // not if another call keeps it closed now
			delete(h.open, at.root)
		}
		close(o.ready)
	}()
	return true, run()
}

// ifClosed is whileClosed for a function that may as well use an open workspace:
// it does not close one.
func (h *hub) ifClosed(at place, run func() error) (ran bool, err error) {
	h.removeUnusable(at)
	h.mu.Lock()
	open := h.open[at.root] != nil
	h.mu.Unlock()
	if open {
		return false, nil
	}
	return h.whileClosed(at, run)
}

// removeAllUnusable is removeUnusable for all open workspaces: the store of one that was moved
// can be the one that is to be opened. It reports whether it closed any.
func (h *hub) removeAllUnusable() (any bool) {
	h.mu.Lock()
	all := slices.Collect(maps.Values(h.open))
	h.mu.Unlock()
	for _, o := range all {
		any = h.removeUnusable(place{o.root, o.data}) || any
	}
	return any
}

// removeUnusable closes an open workspace whose directory or store was removed or replaced since it
// was opened, or whose index lacks the end of the log, and waits up to closePatience until it is
// closed. The next request opens what is at the place now. The requests of the old workspace fail
// with store/io. It reports whether it closed one.
func (h *hub) removeUnusable(at place) bool {
	h.mu.Lock()
	o := h.open[at.root]
	h.mu.Unlock()
	if o == nil || o.usable(at) {
		return false
	}
	h.mu.Lock()
	found := h.open[at.root] == o && !h.closed
	if found {
		delete(h.open, at.root)
		h.moved.Add(1)
	}
	h.mu.Unlock()
	if !found {
		return false
	}
	h.log.Warn("the store was removed or replaced, or its index could not be written: the next request opens what is there",
		"workspace", at.root)
	sealed := make(chan struct{})
	go func() {
		defer h.moved.Done()
		defer close(sealed)
		_ = h.seal(o) // it is logged
	}()
	patience := time.NewTimer(closePatience)
	defer patience.Stop()
	select {
	case <-sealed:
	case <-patience.C:
	}
	return true
}

// enter counts a user of a workspace. first is true if the caller must load it.
func (h *hub) enter(at place) (o *opened, first bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, false, contract.Errorf("runtime/not-ready", "the plugin is shutting down")
	}
	o = h.open[at.root]
	if o == nil {
		o, first = &opened{root: at.root, data: at.data, ready: make(chan struct{})}, true
		h.open[at.root] = o
	}
	if o.users-o.watches >= maxConcurrent {
		return nil, false, o.overloaded("requests", "concurrent-requests", maxConcurrent)
	}
	o.users++
	return o, first, nil
}

// enterWatch makes a user of a workspace a watch, which no longer counts as one of the concurrent
// requests: it lasts, and mostly waits. The caller must call leave before the user leaves.
func (h *hub) enterWatch(o *opened) (leave func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if o.watches >= maxWatches {
		return nil, o.overloaded("watches", "watches", maxWatches)
	}
	o.watches++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		o.watches--
	}, nil
}

// overloaded is the error of a workspace that has reached a limit.
func (o *opened) overloaded(what, limit string, most int64) error {
	return contract.Errorf("runtime/overloaded", "the workspace serves %d %s, which is the limit", most, what).
		WithOp("workspace", o.root).WithDetail("limit", edn.K(limit)).WithDetail("max", edn.Int(most))
}

// leave ends the use of a workspace.
func (h *hub) leave(o *opened) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o.users--
	o.idle = h.now()
	if h.draining && o.users == 0 {
		go h.release(place{o.root, o.data})
	}
}

// release closes a workspace that has no users.
func (h *hub) release(at place) { _, _ = h.whileClosed(at, func() error { return nil }) }

// releaseAfter waits until begin is closed and then closes every workspace without users, and the
// others as soon as they have none: the process that replaces this one needs their stores. It
// returns at once if ctx ends first.
func (h *hub) releaseAfter(ctx context.Context, begin <-chan struct{}) {
	select {
	case <-begin:
	case <-ctx.Done():
		return
	}
	h.mu.Lock()
	h.draining = true
	all := slices.Collect(maps.Values(h.open))
	h.mu.Unlock()
	for _, o := range all {
		h.release(place{o.root, o.data})
	}
}

// load opens a workspace and wakes the requests that wait for it. A workspace that cannot be opened
// is removed from the hub, so the next request tries again.
func (h *hub) load(o *opened, at place, how opening, scheme string) {
	defer close(o.ready)
	h.makeRoom()
	o.err = h.read(o, at, how, scheme)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case o.err == nil:
		h.byID[o.ws.Store.Identity.ID] = at.root
	case h.open[at.root] == o:
		delete(h.open, at.root)
	}
}

func (h *hub) read(o *opened, at place, how opening, scheme string) (err error) {
	have, err := store.Exists(at.data)
	if err != nil {
		return atPlace(err, at)
	}
	if how == existing && !have {
		return h.notFound(at)
	}
	o.ws, err = core.Open(h.life, at.root, h.options(at, scheme))
	if errors.Is(err, contract.OfType("store/locked")) && h.removeAllUnusable() {
		o.ws, err = core.Open(h.life, at.root, h.options(at, scheme))
	}
	if err != nil {
		return atPlace(err, at)
	}
	o.created.Store(!have)
	h.derive(o)
	if o.ws.OtherDirectory() {
		h.log.Warn(otherDirectory, "workspace", at.root)
	}
	if d := o.ws.Store.Damage(); d != nil {
		h.log.Error("the store is damaged and takes no writes", "workspace", at.root, "damage", d)
	}
	return nil
}

// derive gives an open workspace its engine.
func (h *hub) derive(o *opened) {
	o.engine = derive.New(derive.Options{
		Store:    o.ws.Store,
		Open:     o.openFile,
		Agents:   func() *agent.Set { return h.agents },
		Settings: func() derive.Settings { return h.derivation },
		Invoke:   h.invoke,
		Now:      func() int64 { return h.now().UnixNano() },
	})
}

// options are those of the engine for one workspace.
func (h *hub) options(at place, scheme string) core.Options {
	return core.Options{
		Allowed: h.cfg.AllowedRoots,
		Scheme:  scheme,
		DataDir: at.data,
		NewID:   func() string { return ulid.Make().String() },
		Git:     h.git,
		Store: store.Options{
			Now:  func() int64 { return h.now().UnixNano() },
			Warn: func(message string) { h.log.Warn(message, "workspace", at.root) },

			Rebuilt: h.rebuilt,
		},
	}
}

// atPlace adds a hint for the operator to an error of permissions.
func atPlace(err error, at place) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return contract.AsError(err).WithHint("grant the plugin write access to " + at.data +
			" (isolation { write_paths = [..] }), or set data_dir in its config block")
	}
	return err
}

// sweepUntil closes workspaces that are idle, until ctx ends.
func (h *hub) sweepUntil(ctx context.Context) {
	after := time.Duration(h.cfg.IdleClose) * time.Millisecond
	tick := time.NewTicker(min(max(after/4, time.Second), maxSweep))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			h.sweep(after)
		}
	}
}

// sweep closes the workspaces without users for at least a duration, or which are not
// usable. A request that comes meanwhile waits and opens its workspace again.
func (h *hub) sweep(after time.Duration) {
	for _, o := range h.idle() {
		at := place{o.root, o.data}
		if h.now().Sub(o.since) >= after || !o.opened.usable(at) {
			h.release(at)
		}
	}
	h.makeRoom() // requests that came together may have opened more than the bound
}

// makeRoom closes workspaces without users, the least recently used first, while there are more
// open ones than the file descriptors of the process suffice for. One with an unfinished upload
// stays open.
func (h *hub) makeRoom() {
	for _, o := range h.idle() {
		h.mu.Lock()
		enough := len(h.open) <= h.stores
		h.mu.Unlock()
		if enough {
			return
		}
		if o.uploads.pending() {
			continue
		}
		h.release(place{o.root, o.data})
	}
}

// idle is a workspace without users, with the time since when it has none.
type idle struct {
	*opened
	since time.Time
}

// idle returns the open workspaces without users, the least recently used first.
func (h *hub) idle() (list []idle) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.open {
		select {
		case <-o.ready:
		default:
			continue // it is being opened or closed
		}
		if o.users == 0 {
			list = append(list, idle{o, o.idle})
		}
	}
	slices.SortFunc(list, func(a, b idle) int { return a.since.Compare(b.since) })
	return list
}

// seal waits until a workspace has been opened, and closes it with its watcher and its uploads.
func (h *hub) seal(o *opened) error {
	<-o.ready
	if o.ws == nil {
		return nil
	}
	o.watching.Lock()
	w := o.watch
	o.watching.Unlock()
	if w != nil {
		w.Close()
	}
	o.uploads.close()
	err := o.ws.Close()
	if err != nil {
		h.log.Error("close", "workspace", o.root, "error", err)
	}
	return err
}

// close seals all workspaces. Those that are in use finish their running
// transaction or abandon it (WS-050).
func (h *hub) close(context.Context) error {
	h.mu.Lock()
	h.closed = true
	all := h.open
	h.open = map[string]*opened{}
	h.mu.Unlock()
	var wait sync.WaitGroup
	failed := make(chan error, len(all))
	for _, o := range all {
		wait.Go(func() { failed <- h.seal(o) })
	}
	wait.Wait()
	h.moved.Wait()
	close(failed)
	var problems []error
	for err := range failed {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}
