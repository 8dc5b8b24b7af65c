package session

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Caller is the principal of an operation. Any permits the sessions of all principals.
type Caller struct {
	Principal string
	Any       bool
	Only      string // session to whose conversations the caller is limited; empty: all
}

// Ref selects a session for an operation.
type Ref struct {
	ID string
	// Version is the version that the caller expects; 0: any.
	Version int64
	// Operation and Intent select the policy of variables; both may be empty.
	Operation, Intent string
}

// Service executes operations on sessions. Create it with New.
type Service struct {
	store   Store
	now     func() time.Time
	plugins Plugins
	rules   atomic.Pointer[Rules]
	heated  chan struct{}
	shared  bool // other hosts use the store, too

	mu       sync.Mutex
	accessed map[string]time.Time // not yet in the store
	inUse    map[string]int       // runs by session
	grown    map[string]struct{}  // sessions whose runs ended since the last Summarize
	// own holds, if the store is shared, the sessions that have had a run on this host since the
	// model servers for them were last stopped.
	own map[string]struct{}
}

// New returns a service on store. now is the clock, nil for time.Now. A nil plugins
// means that no plugin runs model servers for sessions.
func New(store Store, rules Rules, plugins Plugins, now func() time.Time) *Service {
	if now == nil {
		now = time.Now
	}
	if plugins == nil {
		plugins = func(context.Context, string, string) (int, *contract.Error) { return 0, nil }
	}
	s := &Service{
		store: store, now: now, plugins: plugins, heated: make(chan struct{}, 1),
		accessed: map[string]time.Time{}, inUse: map[string]int{}, grown: map[string]struct{}{}, own: map[string]struct{}{},
	}
	s.Configure(rules)
	return s
}

// Share declares that other hosts use the store, too. It must be called before the first operation.
// The service does not see the runs of the other hosts; see Cool.
func (s *Service) Share() { s.shared = true }

// Configure sets the rules of later operations.
func (s *Service) Configure(r Rules) { s.rules.Store(&r) }

func (s *Service) clock() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

func notFound(id string) *contract.Error {
	return contract.Errorf("session/not-found", "there is no session %q", id)
}

// taken is the error for an id that a caller wants to create a session with, and that
// another principal uses.
func taken(id string) *contract.Error {
	return contract.Errorf("session/not-found", "the session id %q is not available", id).
		WithHint("choose another id for the new session, or leave it out")
}

func conflict(id string, want, current int64) *contract.Error {
	return contract.Errorf("session/version-conflict", "session %q has version %d, the request expects version %d", id, current, want).
		WithDetail("session/version", edn.Int(current))
}

// failed returns err as the error of an operation: unchanged if its type is in session
// or session.vars, else session/store-unavailable; nil if err is nil.
func failed(doing string, err error) *contract.Error {
	if err == nil {
		return nil
	}
	var typed *contract.Error
	if ns := ""; errors.As(err, &typed) {
		if ns = contract.Namespace(typed.Type); ns == "session" || ns == "session.vars" {
			return typed
		}
	}
	out := contract.Errorf("session/store-unavailable", "%s: the store failed: %w", doing, err)
	if errors.Is(err, contract.OfType("journal/damaged")) {
		out = out.WithRetryable(false).WithHint("stop the daemon and run \"ferment admin journal-repair --dry-run\", which shows what can be kept")
	}
	return out
}

// update executes one change of a session of the caller. A change that writes nothing
// does not increment the version. update also deletes expired variables. Its errors are
// those of change, session/invalid-id, session/not-found, session/version-conflict and
// session/store-unavailable.
func (s *Service) update(ctx context.Context, who Caller, ref Ref, doing string,
	change func(Stored, time.Time) (Change, *contract.Error),
) (after Session, err *contract.Error) {
	if err := checkID(ref.ID); err != nil {
		return after, err
	}
	doing += " " + ref.ID
	err = failed(doing, s.store.Update(ctx, ref.ID, func(st Stored) (Change, error) {
		now := s.clock()
		switch {
		case !st.Found || !who.Any && st.Session.Owner != who.Principal:
			return Change{}, notFound(ref.ID)
		case ref.Version != 0 && ref.Version != st.Session.Version:
			return Change{}, conflict(ref.ID, ref.Version, st.Session.Version)
		}
		c, err := change(st, now)
		if err != nil {
			return Change{}, err
		}
		after = st.Session
		if c.Session != nil && !c.Session.equal(st.Session) || len(c.Put)+len(c.Drop)+len(c.Turns) > 0 {
			if c.Session != nil {
				after = *c.Session
			}
			after = after.next(now)
			c.Session = &after
		} else {
			c.Session = nil
		}
		c.Drop = append(c.Drop, lapsed(st, c.Put, now)...)
		return c, nil
	}))
	return after, err
}

// lapsed returns the keys of expired variables that put does not overwrite.
func lapsed(st Stored, put []Var, now time.Time) (out []string) {
	for key, expires := range st.Expires {
		if expired(expires, now) && !slices.ContainsFunc(put, func(v Var) bool { return v.Key == key }) {
			out = append(out, key)
		}
	}
	return out
}

// Open opens a session; it creates the session if it does not exist, with a new id if
// ref.ID is empty. notes, nil for none, replace the notes of the same keys. The errors
// are session/invalid-id, session/not-found for a session of another principal,
// session/version-conflict, session/notes-too-large and session/store-unavailable.
func (s *Service) Open(ctx context.Context, who Caller, ref Ref, notes edn.Value) (Session, *contract.Error) {
	if ref.ID == "" {
		ref.ID = "s-" + ulid.MustNew(ulid.Timestamp(s.clock()), rand.Reader).String()
	}
	if err := checkID(ref.ID); err != nil {
		return Session{}, err
	}
	var made Session
	err := s.store.Update(ctx, ref.ID, func(st Stored) (Change, error) {
		switch {
		case st.Found && !who.Any && st.Session.Owner != who.Principal:
			return Change{}, taken(ref.ID)
		case st.Found:
			return Change{}, nil
		case ref.Version != 0:
			return Change{}, conflict(ref.ID, ref.Version, 0)
		}
		now := s.clock()
		of, err := created(ref.ID, who.Principal, now).thawed(now).noted(notes)
		if err != nil {
			return Change{}, err
		}
		made = of
		return Change{Session: &made}, nil
	})
	defer s.heat()
	if err != nil || made.ID != "" {
		return made, failed("open session "+ref.ID, err)
	}
	return s.set(ctx, who, ref, "open session", notes, Session.thawed)
}

// Thaw opens a session like Open, but does not create it: the error for a missing
// session is session/not-found.
func (s *Service) Thaw(ctx context.Context, who Caller, ref Ref, notes edn.Value) (Session, *contract.Error) {
	defer s.heat()
	return s.set(ctx, who, ref, "thaw session", notes, Session.thawed)
}

// Freeze freezes a session and stops the model servers that plugins run for it. If a
// plugin fails to stop them, it returns the frozen session and the error. Other errors
// are those of Thaw.
func (s *Service) Freeze(ctx context.Context, who Caller, ref Ref, notes edn.Value) (Session, *contract.Error) {
	of, err := s.set(ctx, who, ref, "freeze session", notes, func(of Session, now time.Time) Session { return of.frozen(now, ByCaller) })
	if err != nil {
		return of, err
	}
	return of, s.quit(ctx, ref.ID)
}

func (s *Service) set(ctx context.Context, who Caller, ref Ref, doing string, notes edn.Value,
	to func(Session, time.Time) Session,
) (Session, *contract.Error) {
	return s.update(ctx, who, ref, doing, func(st Stored, now time.Time) (Change, *contract.Error) {
		after, err := to(st.Session, now).noted(notes)
		if err != nil {
			return Change{}, err
		}
		return Change{Session: &after}, nil
	})
}

// Delete deletes a session with its variables and turns, stops the model servers that plugins run
// for it, and returns its last state. If a plugin fails to stop them, the session is deleted
// nevertheless and the error is returned. Other errors are those of Thaw.
func (s *Service) Delete(ctx context.Context, who Caller, ref Ref) (Session, *contract.Error) {
	var last Session
	_, err := s.update(ctx, who, ref, "delete session", func(st Stored, _ time.Time) (Change, *contract.Error) {
		last = st.Session
		return Change{Delete: true}, nil
	})
	if err != nil {
		return last, err
	}
	return last, s.quit(ctx, ref.ID)
}

// Get returns a session, which counts as an access. The error is session/invalid-id,
// session/not-found, also for a session of another principal, or
// session/store-unavailable.
func (s *Service) Get(ctx context.Context, who Caller, id string) (Session, *contract.Error) {
	if err := checkID(id); err != nil {
		return Session{}, err
	}
	found, ok, err := s.store.Session(ctx, id)
	switch {
	case err != nil:
		return Session{}, failed("read session "+id, err)
	case !ok || !who.Any && found.Owner != who.Principal:
		return Session{}, notFound(id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accessed[id] = s.clock()
	found.Accessed = s.accessed[id]
	return found, nil
}

// Owner returns the principal of a session; empty if the session does not exist. It does not count
// as an access. The error is session/invalid-id or session/store-unavailable.
func (s *Service) Owner(ctx context.Context, id string) (string, *contract.Error) {
	if err := checkID(id); err != nil {
		return "", err
	}
	found, ok, err := s.store.Session(ctx, id)
	if err != nil || !ok {
		return "", failed("read session "+id, err)
	}
	return found.Owner, nil
}

// maxList is the maximum number of sessions that one List returns.
const maxList = 200

// List returns sessions with an id after the given one, ordered by id: those of the caller, or of
// all principals if who.Any is set. next is the value of after for the next page; empty if there
// are no more. A limit of 0 or above 200 is 200. The error is session/store-unavailable.
func (s *Service) List(ctx context.Context, who Caller, after string, limit int) (page []Session, next string, err *contract.Error) {
	if limit <= 0 || limit > maxList {
		limit = maxList
	}
	f := Filter{Owner: who.Principal, After: after, Limit: limit + 1}
	if who.Any {
		f.Owner = ""
	}
	page, failure := s.store.Sessions(ctx, f)
	if len(page) > limit {
		page = page[:limit]
		next = page[limit-1].ID
	}
	return page, next, failed("list sessions", failure)
}

// Turns returns the turns of a session that its summary does not cover and that fit into the window
// of the rules, oldest first, and whether earlier ones were cut. The errors are those of Get.
func (s *Service) Turns(ctx context.Context, who Caller, id string) (turns []Turn, cut bool, err *contract.Error) {
	of, err := s.Get(ctx, who, id)
	if err != nil {
		return nil, false, err
	}
	window := s.rules.Load().Window
	turns, failure := s.store.Turns(ctx, id, window.Turns+1)
	turns, cut = window.Cut(after(turns, of.summarized()))
	return turns, cut, failed("read session "+id, failure)
}

// Append adds the turns of a run to a session. It does nothing if the session does not exist any
// more; see Appended. The error is session/store-unavailable.
func (s *Service) Append(ctx context.Context, to Identity, turns []Turn) *contract.Error {
	return failed("append to session "+to.ID, s.store.Update(ctx, to.ID, func(st Stored) (Change, error) {
		return Appended(st, to, turns, s.clock()), nil
	}))
}

// Appended returns the change that adds turns to a session and thaws it. The change is
// empty if the session was deleted during the run, or if another session has its id now.
func Appended(st Stored, to Identity, turns []Turn, now time.Time) Change {
	if !st.Found || !to.is(st.Session) || len(turns) == 0 {
		return Change{}
	}
	after := st.Session.thawed(now).next(now)
	return Change{Session: &after, Turns: turns}
}

// Vars returns the named variables of a session, ordered by key, and the session. Without keys it
// returns all variables that the policy permits to read; a named variable that it does not permit
// is an error. Missing and expired variables are left out. The variables are read after the session
// and may be newer than its version. Other errors are those of Get.
func (s *Service) Vars(ctx context.Context, who Caller, ref Ref, keys []string) (Session, []Var, *contract.Error) {
	rules := s.rules.Load()
	a := rules.Policy.Effective(ref.Operation, ref.Intent)
	if err := rules.refused("read session "+ref.ID, len(keys), checkRead(a, keys)); err != nil {
		return Session{}, nil, err
	}
	of, err := s.Get(ctx, who, ref.ID)
	if err != nil {
		return Session{}, nil, err
	}
	vars, failure := s.store.Vars(ctx, ref.ID, keys...)
	now := s.clock()
	vars = slices.DeleteFunc(vars, func(v Var) bool { return expired(v.Expires, now) || !allows(a.Read, v.Key) })
	return of, vars, failed("read session "+ref.ID, failure)
}

// Put writes all variables or none. A ttl of 0 selects the default of their classes. If the rules
// refuse variables, the error has the type of the first check that failed (a type in session.vars)
// and lists all refused variables. Other errors are session/invalid-id, session/not-found,
// session/version-conflict and session/store-unavailable.
func (s *Service) Put(ctx context.Context, who Caller, ref Ref, vars map[string]edn.Value, ttl time.Duration) (Session, *contract.Error) {
	rules := s.rules.Load()
	a := rules.Policy.Effective(ref.Operation, ref.Intent)
	return s.update(ctx, who, ref, "write session", func(st Stored, now time.Time) (Change, *contract.Error) {
		if err := rules.refused("write session "+ref.ID, len(vars), rules.checkPut(st, a, vars, now)); err != nil {
			return Change{}, err
		}
		var c Change
		for _, key := range slices.Sorted(maps.Keys(vars)) {
			c.Put = append(c.Put, Var{Key: key, Value: vars[key], Expires: rules.expiry(key, ttl, now)})
		}
		return c, nil
	})
}

// Drop deletes all named variables or none; without keys all variables of the session. It returns
// the keys of those that existed. The errors are those of Put.
func (s *Service) Drop(ctx context.Context, who Caller, ref Ref, keys []string) (of Session, dropped []string, err *contract.Error) {
	rules := s.rules.Load()
	a := rules.Policy.Effective(ref.Operation, ref.Intent)
	of, err = s.update(ctx, who, ref, "write session", func(st Stored, now time.Time) (Change, *contract.Error) {
		visible := func(key string) bool {
			expires, ok := st.Expires[key]
			return ok && !expired(expires, now)
		}
		named := slices.Compact(slices.Sorted(slices.Values(keys)))
		if len(keys) == 0 {
			named = slices.Sorted(maps.Keys(st.Expires))
			named = slices.DeleteFunc(named, func(key string) bool { return !visible(key) })
		}
		if err := rules.refused("write session "+ref.ID, len(named), rules.checkDelete(st, a, named)); err != nil {
			return Change{}, err
		}
		dropped = slices.DeleteFunc(named, func(key string) bool { return !visible(key) })
		return Change{Drop: slices.Clone(dropped)}, nil
	})
	return of, dropped, err
}

// Upkeep writes the collected access times to the store and deletes expired variables.
// It returns the number of deleted variables. It must be called periodically, at least
// once in Rules.IdleTTL.
func (s *Service) Upkeep(ctx context.Context) (int, *contract.Error) {
	s.mu.Lock()
	if s.shared { // so that other hosts see that the session is in use
		for id := range s.inUse {
			s.accessed[id] = s.clock()
		}
	}
	accessed := s.accessed
	s.accessed = map[string]time.Time{}
	s.mu.Unlock()
	if len(accessed) > 0 {
		if err := s.store.Touch(ctx, accessed); err != nil {
			s.keepAccessed(accessed)
			return 0, failed("write access times", err)
		}
	}
	n, err := s.store.Purge(ctx, s.clock())
	return n, failed("delete expired session variables", err)
}

// keepAccessed keeps access times that could not be written, for the next Upkeep.
func (s *Service) keepAccessed(accessed map[string]time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, at := range accessed {
		if at.After(s.accessed[id]) {
			s.accessed[id] = at
		}
	}
}
