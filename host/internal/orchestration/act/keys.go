package act

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// KeyFinder is an optional interface of a Journal that finds runs by the hash of their
// idempotency key, from their acceptance on.
type KeyFinder interface {
	// Keyed returns the id of the run, empty if there is none.
	Keyed(ctx context.Context, hash string) (run string, err error)
}

// ErrKeyTaken is wrapped by the error of a journal that rejects a run because another
// host has just accepted a run with the same idempotency key.
var ErrKeyTaken = errors.New("its idempotency key is that of another run")

// Sharer is an optional interface of a Journal that several hosts share.
type Sharer interface {
	// Elsewhere reports whether a host other than this one executes the run.
	Elsewhere(ctx context.Context, run string) (bool, error)
}

// Keys holds the idempotency keys of the runs in progress of a host (RUN-020 to
// RUN-022): requests with one key share one run. All services of a host share one Keys.
// The zero value is ready to use; it is safe for concurrent use.
type Keys struct {
	mu   sync.Mutex
	held map[string]*held
}

// held is a key of a run in progress, or of an act that may become one.
type held struct {
	fingerprint string
	run         *Run          // set before ready is closed; nil: the act was rejected
	ready       chan struct{} // closed when the act is accepted or rejected
}

// hold takes a key for an act and returns mine, which must be settled. If another act
// has the key, it returns other instead.
func (k *Keys) hold(key, fingerprint string) (mine, other *held) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.held[key]; h != nil {
		return nil, h
	}
	if k.held == nil {
		k.held = map[string]*held{}
	}
	h := &held{fingerprint: fingerprint, ready: make(chan struct{})}
	k.held[key] = h
	return h, nil
}

// settle passes the run of a held key to the acts that wait for it. If run is nil, the
// act was rejected, and the key is released.
func (k *Keys) settle(key string, h *held, run *Run) {
	k.mu.Lock()
	if run == nil {
		delete(k.held, key)
	}
	k.mu.Unlock()
	h.run = run
	close(h.ready)
}

// release frees the key of a run that is over and durable.
func (k *Keys) release(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.held, key)
}

// keyOf returns the hash of the idempotency key of an act; empty if it has none. Equal
// keys of different principals or operations have different hashes.
func keyOf(f *flight) string {
	if f.request.IdempotencyKey == "" {
		return ""
	}
	return KeyHash(f.act.Principal, f.request.IdempotencyKey)
}

// KeyHash returns the hash of an idempotency key that a principal uses for act/run.
func KeyHash(principal, key string) string {
	return edn.Hash(edn.Vector(edn.Text(principal), edn.K("act/run"), edn.Text(key)))
}

// attach is the step that finds the run of the act's idempotency key. If there is one,
// the act is not accepted and its caller gets that run. A run that failed with a
// retryable error is continued (RUN-022).
func attach(f *flight) *contract.Error {
	f.print = f.essence(f.act.Request)
	key := keyOf(f)
	if key == "" || f.act.Fill != nil {
		return nil
	}
	c := &f.service.config
	if err := c.Access.IntentDenied(f.request.Intent, f.act.caller()); err != nil {
		return err // another credential of the principal may have had the intent
	}
	finder, ok := c.Journal.(KeyFinder)
	if !ok || c.Keys == nil {
		return contract.Errorf("db/not-configured", "this host keeps no idempotency keys: its runs are in memory").
			WithHint("send the request without the key, or set store.driver = \"sqlite\"")
	}
	fingerprint := f.print.Hash()
	for {
		mine, other := c.Keys.hold(key, fingerprint)
		if other == nil {
			return f.stored(finder, key, mine)
		}
		if other.fingerprint != fingerprint {
			return keyMismatch()
		}
		<-other.ready
		if f.attached = other.run; f.attached != nil {
			return nil
		}
	}
}

// stored looks for a recorded run with the key and attaches the act to it, or marks it
// to be continued. Without such a run the act continues as a new one and holds the key.
func (f *flight) stored(finder KeyFinder, key string, mine *held) *contract.Error {
	c := &f.service.config
	var id string
	var err error
	free := func(err *contract.Error) *contract.Error {
		c.Keys.settle(key, mine, nil)
		if err != nil && id != "" && err.Type != "idempotency/mismatch" {
			err = err.WithWhere("run", edn.Text(id)) // the answer is about that run
		}
		return err
	}
	id, err = finder.Keyed(context.Background(), key)
	switch {
	case err != nil:
		return free(contract.AsError(err))
	case id == "":
		f.key, f.holds = key, mine
		return nil
	}
	records, err := c.Journal.Records(id)
	past := journal.NewHistory(records)
	switch {
	case err != nil:
		return free(contract.AsError(err))
	case past.Accepted == nil:
		return free(contract.Errorf("journal/unavailable", "run %s of the idempotency key cannot be read: its first record is missing", id))
	case past.Accepted.Fingerprint.Hash() != mine.fingerprint:
		return free(keyMismatch())
	case past.Suspended != nil:
		return free(suspended(id, past.Suspended))
	case past.MayReopen() && past.ByKey >= maxReopened:
		return free(contract.Errorf("idempotency/exhausted", "run %s of the idempotency key has failed %d times, which is the limit", id, 1+past.ByKey).
			WithCause(past.Failure).WithWhere("run", edn.Text(id)))
	case past.MayReopen():
		f.key, f.holds, f.failed = key, mine, &failedRun{id, past}
		return nil
	case !past.Finished:
		shared, ok := c.Journal.(Sharer)
		if ok {
			ok, err = shared.Elsewhere(context.Background(), id)
		}
		switch {
		case err != nil:
			return free(contract.AsError(err))
		case !ok:
			return free(contract.Errorf("runtime/starting", "run %s of the idempotency key is not resumed yet", id))
		}
		f.attached = f.sharing(id)
		f.attached.from = c.Journal
		return free(nil)
	}
	end := records[len(records)-1].Body.(*journal.RunFinished)
	if end.Response.Value().IsNil() {
		return free(contract.Errorf("replay/values-purged", "the response of run %s was purged", id))
	}
	done := make(chan struct{})
	close(done)
	f.attached = &Run{
		f:    &flight{id: id, response: end.Response.Value(), err: end.Err, records: records, follow: journal.Recorded(records)},
		done: done,
	}
	return free(nil)
}

// recorded waits until a run that another host executes has its last record, and returns
// the response in it with the error in that response. The last result is not nil if
// there is no response: the run is suspended or cannot be read, or ctx is done.
func recorded(ctx context.Context, from Journal, id string) (edn.Value, *contract.Error, error) {
	var records []journal.Record
	for all := from.Follow(id, 0); ; {
		rec, ok, err := all.Next(ctx)
		switch {
		case err != nil:
			return edn.Nil(), nil, err
		case !ok:
			past := journal.NewHistory(records)
			switch {
			case past.Suspended != nil:
				return edn.Nil(), nil, suspended(id, past.Suspended)
			case !past.Finished:
				return edn.Nil(), nil, contract.Errorf("journal/unavailable", "run %s of another host cannot be read: its records stop before its end", id)
			}
			end := records[len(records)-1].Body.(*journal.RunFinished)
			if end.Response.Value().IsNil() {
				return edn.Nil(), nil, contract.Errorf("replay/values-purged", "the response of run %s was purged", id)
			}
			return end.Response.Value(), end.Err, nil
		}
		records = append(records, rec)
	}
}

func keyMismatch() *contract.Error {
	return contract.Errorf("idempotency/mismatch", "the idempotency key was used for another request")
}

// shared returns the run that has the idempotency key of an act, for the caller of the
// act. That caller cannot cancel it, and waits until its own deadline.
func (f *flight) shared() *Run {
	r := f.attached
	if r.Stored() || r.Elsewhere() {
		return r
	}
	own := f.sharing(r.ID())
	own.of, own.done = r, r.done
	return own
}

// sharing returns a handle of another caller's run for the caller of the act, which
// waits for it until its own deadline.
func (f *flight) sharing(run string) *Run {
	c := &f.service.config
	return &Run{
		f:     &flight{id: run, follow: c.Journal.Follow(run, 0), act: f.act},
		done:  make(chan struct{}),
		until: f.begun.Add(time.Duration(f.request.DeadlineMS) * time.Millisecond),
		clock: c.Clock,
	}
}

// Elsewhere reports whether another host executes the run.
func (r *Run) Elsewhere() bool { return r.from != nil }

// Stored reports whether the run had finished before the act was received: its response
// is read from the journal.
func (r *Run) Stored() bool {
	return r.of == nil && r.from == nil && r.flight().service == nil
}

// Attached reports whether the run was started by an earlier act with the same
// idempotency key.
func (r *Run) Attached() bool { return r.of != nil || r.flight().service == nil }
