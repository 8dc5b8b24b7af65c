package derive

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/store"
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
	"github.com/fermenthq/ferment/sdk/contract"
)

// work is a request that makes frames level by level, the deepest paths first. A
// level is all paths with the same number of components: their entries are in
// the level before.
type work struct {
	e      *Engine
	caller Caller
	// jobs returns the jobs of the candidates of a level, as the snapshot has
	// them after the levels below were done.
	jobs func(ctx context.Context, v *store.Snapshot, candidates []string) ([]*job, error)
	// climb reports whether a directory is a candidate after the head of an entry
	// of it changed.
	climb func(dir string) bool
	// scope makes paths candidates. It is called again when inputs moved, since
	// other paths may have work then; nil if the candidates are fixed.
	scope    func(ctx context.Context, v *store.Snapshot) error
	progress func(Progress)
	deltas   func(Delta)
	phase    string
	total    int
	stop     func() bool // begin no other level
	// Of calls.
	concurrency int
	onFailure   OnFailure
	failed      atomic.Bool

	candidates map[int]map[string]bool // paths that are not done, by level
	done       []*job                  // jobs with an outcome
	pending    []*job                  // computed, not committed
	held       [][]key
	committed  uint64 // transaction with the results for the held keys
	seq        uint64
}

// errRestart means that a snapshot is too old to continue with.
var errRestart = errors.New("read the state again")

// add makes a path a candidate.
func (w *work) add(path string) {
	if w.candidates == nil {
		w.candidates = map[int]map[string]bool{}
	}
	level := tree.Depth(path)
	if w.candidates[level] == nil {
		w.candidates[level] = map[string]bool{}
	}
	w.candidates[level][path] = true
}

// run processes all levels. The frames computed from one snapshot are committed in one transaction;
// if their inputs changed meanwhile, those levels are computed again.
func (w *work) run(ctx context.Context) error {
	w.e.flight.enter()
	defer w.e.flight.leave()
	defer w.release()
	again := false
	for attempt := 1; ; {
		before := w.save()
		var calls []*job
		err := w.e.o.Store.View(ctx, store.Latest, func(v *store.Snapshot) (err error) {
			w.seq = max(w.seq, v.Seq())
			if again && w.scope != nil {
				if err := w.scope(ctx, v); err != nil {
					return err
				}
			}
			calls, err = w.levels(ctx, v)
			return err
		})
		if err == nil {
			err = w.flush(ctx)
		}
		w.release()
		switch {
		case errors.Is(err, errRestart):
			w.restore(before)
			again = true
			continue
		case errors.Is(err, store.ErrMoved) || store.IsMissing(err) && len(w.pending) > 0:
			if attempt == maxAttempts {
				return contract.Errorf("regenerate/contended", "gave up after %d attempts: %w", attempt, err).
					WithOp("derive", store.Shown(w.pending[0].item.Path))
			}
			attempt++
			w.restore(before)
			again = true
			continue
		case err != nil:
			return contract.AsError(err)
		}
		again = false
		if len(calls) > 0 {
			if err := w.call(ctx, calls); err != nil {
				return err
			}
		}
		if len(w.candidates) == 0 || w.stop != nil && w.stop() {
			return nil
		}
	}
}

// saved holds the fields of work that an attempt changes, to undo it.
type saved struct {
	candidates map[int]map[string]bool
	done       int
}

func (w *work) save() saved {
	s := saved{candidates: map[int]map[string]bool{}, done: len(w.done)}
	for level, paths := range w.candidates {
		s.candidates[level] = map[string]bool{}
		for p := range paths {
			s.candidates[level][p] = true
		}
	}
	return s
}

func (w *work) restore(s saved) {
	w.candidates, w.done, w.pending = s.candidates, w.done[:s.done], nil
}

// levels computes levels until none is left or one has jobs that call a model. These jobs are
// returned; everything below their level has then been computed.
func (w *work) levels(ctx context.Context, v *store.Snapshot) (calls []*job, err error) {
	for len(w.candidates) > 0 {
		deepest := -1
		for level := range w.candidates {
			deepest = max(deepest, level)
		}
		paths := make([]string, 0, len(w.candidates[deepest]))
		for p := range w.candidates[deepest] {
			paths = append(paths, p)
		}
		slices.Sort(paths)
		jobs, err := w.jobs(ctx, v, paths)
		if err != nil {
			return nil, err
		}
		delete(w.candidates, deepest)
		var own []*job
		for _, j := range jobs {
			j.began = w.e.o.Now()
			switch {
			case j.done():
				w.done = append(w.done, j)
			case j.call != nil:
				calls = append(calls, j)
			default:
				own = append(own, j)
			}
		}
		if err := w.compute(ctx, v, own); err != nil {
			return nil, err
		}
		if len(calls) > 0 || len(w.pending) >= MaxTransaction {
			return calls, nil
		}
	}
	return nil, nil
}

// compute makes the frames of a level and makes the directories above them
// candidates.
func (w *work) compute(ctx context.Context, v *store.Snapshot, jobs []*job) error {
	keys := make([]key, len(jobs))
	for i, j := range jobs {
		keys[i] = j.key()
	}
	if len(keys) > 0 {
		outdated, err := w.e.flight.acquire(ctx, keys, v.Seq())
		if err != nil {
			return err
		}
		w.held = append(w.held, keys)
		if outdated {
			return errRestart
		}
	}
	for _, j := range jobs {
		if err := w.e.look(ctx, v, j); err != nil {
			j.fail(err)
		}
	}
	if err := w.e.run(ctx, v, jobs); err != nil {
		return err
	}
	for _, j := range jobs {
		var err error
		switch {
		case j.done():
		case j.reuse != nil:
			j.item.New = j.reuse.ID
			v.Assume(j.reuse, j.now, nil)
		default:
			err = w.e.finish(v, j)
		}
		if err != nil {
			j.fail(err)
		}
		if j.done() {
			w.done = append(w.done, j)
			continue
		}
		w.pending = append(w.pending, j)
		w.changed(j)
	}
	w.report()
	return nil
}

// changed makes the directory above a job a candidate.
func (w *work) changed(j *job) {
	if p := j.item.Path; p != "" && w.climb != nil && w.climb(tree.Parent(p)) {
		w.add(tree.Parent(p))
	}
}

func (w *work) report() {
	if w.progress != nil {
		done := len(w.done) + len(w.pending)
		w.progress(Progress{Phase: w.phase, Done: done, Total: max(w.total, done)})
	}
}

// flush commits what was computed.
func (w *work) flush(ctx context.Context) error {
	if len(w.pending) == 0 {
		return nil
	}
	seq, err := w.e.o.Store.Update(ctx, w.caller.actor(), func(tx *store.Tx) error {
		for _, j := range w.pending {
			if err := tx.Context().Err(); err != nil {
				return context.Cause(tx.Context())
			}
			if err := j.commit(tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	w.seq, w.committed = seq, seq
	now := w.e.o.Now()
	for _, j := range w.pending {
		j.conclude(now)
	}
	w.done = append(w.done, w.pending...)
	w.pending = nil
	return nil
}

func (w *work) release() {
	for _, keys := range w.held {
		w.e.flight.release(keys, w.committed)
	}
	w.held, w.committed = nil, 0
}

// items returns the report of all jobs, sorted by path and type, with the totals.
func (w *work) items() (items []Item, counts Counts) {
	for _, j := range w.done {
		items = append(items, j.item)
		switch j.item.Outcome {
		case Made:
			if j.now.Mode == id.Dir {
				counts.Directory++
			} else {
				counts.File++
			}
		case Reused:
			counts.Reused++
		case Skipped:
			counts.Skipped++
		case Failed:
			counts.Failed++
		}
	}
	slices.SortFunc(items, func(a, b Item) int {
		return compareKeys(key{a.Path, a.Type}, key{b.Path, b.Type})
	})
	return items, counts
}

func compareKeys(a, b key) int {
	if c := strings.Compare(a.path, b.path); c != 0 {
		return c
	}
	return strings.Compare(a.typ, b.typ)
}
