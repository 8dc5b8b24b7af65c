package session

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/fermenthq/ferment/sdk/contract"
)

// FrozenBy is the cause of a freeze.
type FrozenBy int

// The causes of a freeze. Their numbers are stored.
const (
	ByCaller FrozenBy = iota
	ByHotLimit
	ByIdleTTL
)

// String returns the name of the cause in answers: caller, manager/hot-limit or manager/idle-ttl.
func (by FrozenBy) String() string {
	return [...]string{"caller", "manager/hot-limit", "manager/idle-ttl"}[by]
}

// Plugins calls an intent of model servers (MLX-011) for a session in every running
// plugin that serves the intent, and returns the number of plugins that carried it out.
type Plugins func(ctx context.Context, session, intent string) (int, *contract.Error)

// The intents of Plugins.
const (
	quitServers   = "model/quit"
	freezeServers = "model/freeze"
	thawServers   = "model/thaw"
)

// Cooled is a session that Cool froze.
type Cooled struct {
	ID string
	By FrozenBy
}

// Hot returns a channel that receives a value when a session may have become hot or a
// run of a session has ended. The receiver should then call Cool and Summarize. Signals
// coalesce.
func (s *Service) Hot() <-chan struct{} { return s.heated }

func (s *Service) heat() {
	select {
	case s.heated <- struct{}{}:
	default:
	}
}

// Use marks a session as used by a run. Cool does not freeze it before all its users
// have called release. release must be called exactly once.
func (s *Service) Use(id string) (release func()) {
	s.mu.Lock()
	s.inUse[id]++
	if s.shared {
		s.own[id] = struct{}{}
	}
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.inUse[id]--; s.inUse[id] == 0 {
			delete(s.inUse, id)
		}
		s.accessed[id], s.grown[id] = s.clock(), struct{}{}
		s.heat()
	}
}

// Count returns the numbers of hot and of warm sessions.
func (s *Service) Count(ctx context.Context) (hot, warm int, err *contract.Error) {
	all, failure := s.store.Count(ctx)
	if failure != nil {
		return 0, 0, failed("count sessions", failure)
	}
	list, failure := s.store.Hot(ctx)
	if failure != nil {
		return 0, 0, failed("list hot sessions", failure)
	}
	return len(list), max(0, all-len(list)), nil
}

// Cool freezes the hot sessions that were not used for Rules.IdleTTL, then the least
// recently used ones above Rules.MaxHot, and stops the model servers that plugins run
// for them. Sessions in use stay hot. Cool continues after a failure: cooled are the
// sessions that were frozen, err is one of the failures.
//
// With a shared store, Rules.MaxHot is the limit of the sessions with runs on this host. Another
// session may be in use on another host, which writes that to the store within Rules.IdleTTL; it is
// frozen after twice that time without an access. Cool also stops the model servers on this host
// for sessions that another host has frozen or deleted.
func (s *Service) Cool(ctx context.Context) (cooled []Cooled, err *contract.Error) {
	hot, failure := s.store.Hot(ctx)
	if failure != nil {
		return nil, failed("list hot sessions", failure)
	}
	s.mu.Lock()
	for i := range hot {
		hot[i].Accessed = later(hot[i].Accessed, s.accessed[hot[i].ID])
	}
	inUse, own := maps.Clone(s.inUse), maps.Clone(s.own)
	s.mu.Unlock()
	slices.SortFunc(hot, func(a, b Session) int { return a.Accessed.Compare(b.Accessed) })
	rules, now := s.rules.Load(), s.clock()
	left := len(hot)
	ours := func(id string) bool {
		_, ok := own[id]
		return ok || !s.shared
	}
	if s.shared {
		err = s.quitElsewhere(ctx, hot, own, inUse)
		left = len(own)
	}
	for _, candidate := range hot {
		by, ttl := ByHotLimit, rules.IdleTTL
		if !ours(candidate.ID) {
			ttl *= 2
		}
		if ttl > 0 && !now.Before(candidate.Accessed.Add(ttl)) {
			by = ByIdleTTL
		}
		if by == ByHotLimit && (left <= rules.MaxHot || !ours(candidate.ID)) {
			continue
		}
		if inUse[candidate.ID] > 0 {
			continue
		}
		done, failure := s.freezeUnused(ctx, candidate, by)
		switch {
		case failure != nil: // continue with the others
			err = failure
		case done:
			if ours(candidate.ID) {
				left--
			}
			cooled = append(cooled, Cooled{candidate.ID, by})
		}
	}
	for _, c := range cooled {
		err = cmp.Or(s.quit(ctx, c.ID), err)
	}
	return cooled, err
}

// quitElsewhere stops the model servers of sessions that another host has frozen or
// deleted, and removes these sessions from own.
func (s *Service) quitElsewhere(
	ctx context.Context, hot []Session, own map[string]struct{}, inUse map[string]int,
) (err *contract.Error) {
	for _, id := range slices.Sorted(maps.Keys(own)) {
		if inUse[id] > 0 || slices.ContainsFunc(hot, func(of Session) bool { return of.ID == id }) {
			continue
		}
		delete(own, id)
		err = cmp.Or(s.quit(ctx, id), err)
	}
	return err
}

// freezeUnused freezes a hot session unless it was used since it was read.
func (s *Service) freezeUnused(ctx context.Context, read Session, by FrozenBy) (done bool, err *contract.Error) {
	err = failed("freeze session "+read.ID, s.store.Update(ctx, read.ID, func(st Stored) (Change, error) {
		s.mu.Lock()
		used := s.inUse[read.ID] > 0 || s.accessed[read.ID].After(read.Accessed)
		s.mu.Unlock()
		used = used || st.Session.Accessed.After(read.Accessed) // on another host
		if used || !st.Found || st.Session.Frozen || st.Session.Version != read.Version || !read.Identity().is(st.Session) {
			return Change{}, nil
		}
		done = true
		accessed := later(st.Session.Accessed, read.Accessed)
		after := st.Session.frozen(s.clock(), by).next(s.clock())
		after.Accessed = accessed // freezing is not an access
		return Change{Session: &after}, nil
	}))
	return done, err
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// quit stops the model servers that plugins run for a session. The next call that needs
// such a server starts it again.
func (s *Service) quit(ctx context.Context, id string) *contract.Error {
	s.mu.Lock()
	if s.inUse[id] == 0 {
		delete(s.own, id)
	}
	s.mu.Unlock()
	_, err := s.plugins(ctx, id, quitServers)
	return err
}

// ThawWorkers permits and starts the model servers that plugins run for a session. It
// returns the session and the number of plugins that did. The errors are those of Get
// and of the plugins.
func (s *Service) ThawWorkers(ctx context.Context, who Caller, id string) (Session, int, *contract.Error) {
	return s.workers(ctx, who, id, thawServers)
}

// FreezeWorkers stops the model servers that plugins run for a session, and prevents
// their start until ThawWorkers. Its results are those of ThawWorkers.
func (s *Service) FreezeWorkers(ctx context.Context, who Caller, id string) (Session, int, *contract.Error) {
	return s.workers(ctx, who, id, freezeServers)
}

func (s *Service) workers(ctx context.Context, who Caller, id, intent string) (Session, int, *contract.Error) {
	of, err := s.Get(ctx, who, id)
	if err != nil {
		return of, 0, err
	}
	n, err := s.plugins(ctx, id, intent)
	return of, n, err
}
