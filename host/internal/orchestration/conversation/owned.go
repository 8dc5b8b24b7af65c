package conversation

import (
	"context"
	"errors"

	"github.com/fermenthq/ferment/host/internal/domain/turns"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/conversation/session"
)

// Owned implements the session store of the SDK with the conversations of one principal:
// the messages of a session are those of the path. A change must start and end at turn
// boundaries. The error for a conversation of another principal is conversation/not-found.
type Owned struct {
	s     *Service
	owner string
}

var _ session.Store = Owned{}

// Of returns the conversations of a principal as a store of sessions.
func (s *Service) Of(owner string) Owned { return Owned{s, owner} }

// Load implements session.Store.
func (o Owned) Load(ctx context.Context, id string) (out session.Snapshot, err error) {
	err = o.s.store.Read(ctx, id, func(r Reader) error {
		of, found := r.Conversation()
		switch {
		case !found:
			return nil
		case of.Owner != o.owner:
			return notFound(id)
		}
		_, said, err := state{r, of}.whole()
		if err != nil {
			return err
		}
		out = session.Snapshot{Version: session.Version(of.Version)}
		for m := range flat(said) {
			out.Messages = append(out.Messages, m)
		}
		return nil
	})
	return out, err
}

// Commit implements session.Store.
func (o Owned) Commit(ctx context.Context, id string, base session.Version, c session.Change) (session.Version, error) {
	var refused error // an error of the SDK interface; the store gets a *contract.Error
	_, err := o.s.store.Update(ctx, id, func(r Reader) (Change, error) {
		refused = nil
		of, found := r.Conversation()
		switch {
		case found && of.Owner != o.owner:
			return Change{}, notFound(id)
		case session.Version(of.Version) != base:
			refused = &session.ConflictError{ID: id, Base: base, Current: session.Version(of.Version)}
			return Change{}, conflict(id, int64(base), of.Version)
		}
		now := o.s.clock()
		if !found {
			if !idForm.MatchString(id) {
				return Change{}, notFound(id)
			}
			of = Conversation{ID: id, Owner: o.owner, Created: now}
		}
		if err := o.s.thawed(ctx, of); err != nil {
			return Change{}, err
		}
		do, failure := state{r, of}.replaced(c)
		if failure != nil {
			var outside *session.RangeError
			if errors.As(failure, &outside) {
				refused, failure = outside, contract.Errorf("conversation/invalid-message", "change conversation %s: %w", id, outside)
			}
			return Change{}, failure
		}
		of.Version, of.Turns, of.Updated = of.Version+1, do.Keep+len(do.Steps), now
		return Change{Set: &of, Path: &do, Commit: &Commit{Version: of.Version, Kind: "session", At: now}}, nil
	})
	switch {
	case refused != nil:
		return 0, refused
	case err != nil:
		return 0, err
	}
	return base + 1, nil
}

// whole returns the path with the messages of each step.
func (st state) whole() (turns.Path, [][]conversation.Message, error) {
	path, err := st.Path(0)
	if err != nil {
		return nil, nil, err
	}
	said, err := st.Messages(0, 0)
	if err != nil {
		return nil, nil, err
	}
	if len(said) != len(path) {
		return nil, nil, contract.Errorf("conversation/store-failed", "conversation %s has %d turns, but messages for %d turns", st.ID, len(path), len(said)).
			WithHint("it was deleted during the read, or is damaged: read it again")
	}
	return path, said, nil
}

// replaced returns the change of the path that replaces a range of messages. The error is a
// *session.RangeError for a range outside the path, or conversation/invalid-message for one
// that starts or ends within a turn.
func (st state) replaced(c session.Change) (turns.Change, error) {
	path, said, err := st.whole()
	if err != nil {
		return turns.Change{}, err
	}
	places, n := map[int]int{0: 0}, 0 // positions of turns by the number of messages before them
	for i, messages := range said {
		n += len(messages)
		places[n] = i + 1
	}
	if c.From < 0 || c.From > c.To || c.To > n {
		return turns.Change{}, &session.RangeError{From: c.From, To: c.To, Len: n}
	}
	from, begins := places[c.From]
	to, ends := places[c.To]
	if !begins || !ends {
		return turns.Change{}, contract.Errorf("conversation/invalid-message", "conversation %s: the messages %d to %d begin or end within a turn",
			st.ID, c.From, c.To).WithHint("change whole turns; a turn is the messages of one role that were committed together")
	}
	do := turns.Change{Keep: from}
	if len(c.Messages) > 0 {
		if err := turns.CheckSize(c.Messages); err != nil {
			return turns.Change{}, err
		}
		do = turns.Append(from, c.Messages)
	}
	do.Steps = append(do.Steps, path[to:]...)
	if err := do.Fits(0); err != nil {
		return turns.Change{}, err
	}
	if err := follows(st, do); err != nil {
		return turns.Change{}, err
	}
	return do, nil
}
