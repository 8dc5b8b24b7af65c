package conversation

import (
	"context"

	"github.com/fermenthq/ferment/host/internal/domain/turns"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/edn"
)

// alone executes a change of a conversation while no other write operation on it runs.
func (s *Service) alone(ctx context.Context, c *Call, decide func(state) (commit, *contract.Error)) (written, *contract.Error) {
	id := text(c.Input, keyID)
	leave, err := s.lines.enter(ctx, id, c.holder())
	if err != nil {
		return written{}, err
	}
	defer leave()
	return s.change(ctx, c, id, base(c.Input), decide)
}

// changed is alone, with the output of the intent and the event of the change.
func (s *Service) changed(ctx context.Context, c *Call, event string, decide func(state) (commit, *contract.Error)) (edn.Value, *contract.Error) {
	w, err := s.alone(ctx, c, decide)
	if err != nil {
		return edn.Nil(), err
	}
	c.event(event, func(b *edn.MapBuilder) { b.Key("version", edn.Int(w.Version)) })
	b := w.value()
	return b.Map(), nil
}

// open returns a conversation, and creates it if there is none. The conversation of a
// session is created by its acts only.
func (s *Service) open(ctx context.Context, c *Call) (edn.Value, *contract.Error) {
	id, malformed := c.newID(keyID)
	if malformed != nil {
		id = text(c.Input, keyID)
	}
	var of Conversation
	_, failure := s.store.Update(ctx, id, func(r Reader) (Change, error) {
		if _, found := r.Conversation(); found {
			st, err := c.open(r, id)
			if err != nil {
				return Change{}, taken(id, err)
			}
			of = st.Conversation
			return Change{}, nil
		}
		if _, ofSession := session.OfConversation(id); ofSession {
			return Change{}, notFound(id)
		}
		if malformed != nil {
			return Change{}, malformed
		}
		now := s.clock()
		of = Conversation{
			ID: id, Owner: c.Caller.Principal, Session: c.Session, Title: text(c.Input, "title"), Created: now, Updated: now,
			Key: c.Key,
		}
		if err := s.thawed(ctx, of); err != nil {
			return Change{}, err
		}
		set := of
		return Change{Set: &set}, nil
	})
	b := of.value()
	return b.Map(), failed("open conversation "+id, failure)
}

// append adds messages: as new turns, or with :at-turn as an alternative of that turn.
func (s *Service) append(ctx context.Context, c *Call) (edn.Value, *contract.Error) {
	messages, err := messagesOf(c.Input)
	if err != nil {
		return edn.Nil(), err
	}
	return s.changed(ctx, c, "appended", func(st state) (commit, *contract.Error) {
		if c.Input.HasKey(keyAt) {
			return st.answered(turns.ParseTurn(text(c.Input, keyAt)), messages, tail(c.Input))
		}
		do := turns.Append(st.Turns, messages)
		return commit{Change: do}, follows(st, do)
	})
}

// answered returns the change that adds an alternative to a turn.
func (st state) answered(turn int64, messages []conversation.Message, tail turns.Tail) (commit, *contract.Error) {
	path, failure := st.Path(0)
	if failure != nil {
		return commit{}, failed("read conversation "+st.ID, failure)
	}
	do, err := path.Answer(turn, messages, tail)
	if err != nil {
		return commit{}, err
	}
	return commit{Change: do}, follows(st, do)
}

// edit adds a text as an alternative of a turn and selects it.
func (s *Service) edit(ctx context.Context, c *Call) (edn.Value, *contract.Error) {
	return s.changed(ctx, c, "edited", func(st state) (commit, *contract.Error) {
		path, failure := st.Path(0)
		if failure != nil {
			return commit{}, failed("read conversation "+st.ID, failure)
		}
		i, err := path.Index(turnOf(c.Input))
		if err != nil {
			return commit{}, err
		}
		if path[i].Role == conversation.RoleTool {
			return commit{}, contract.Errorf("conversation/invalid-message", "turn %s has results of tools, which cannot be edited",
				turns.TurnID(path[i].Turn)).WithHint("edit the turn of the assistant that calls the tools, or regenerate it")
		}
		m, bad := conversation.New(path[i].Role, conversation.Text{Text: text(c.Input, "text")})
		if bad != nil {
			return commit{}, contract.Errorf("conversation/invalid-message", "edit turn %s: %w", turns.TurnID(path[i].Turn), bad).
				WithDetail("path", edn.Vector(edn.K("text")))
		}
		if err := turns.CheckMessage(m, edn.K("text")); err != nil {
			return commit{}, err
		}
		return st.answered(path[i].Turn, []conversation.Message{m}, tail(c.Input))
	})
}

// choose selects an alternative of a turn.
func (s *Service) choose(ctx context.Context, c *Call) (edn.Value, *contract.Error) {
	return s.changed(ctx, c, "selected", func(st state) (commit, *contract.Error) {
		path, failure := st.Path(0)
		if failure != nil {
			return commit{}, failed("read conversation "+st.ID, failure)
		}
		turn := turnOf(c.Input)
		spans, failure := st.Spans(turn)
		if failure != nil {
			return commit{}, failed("read conversation "+st.ID, failure)
		}
		do, err := path.Select(turn, turns.ParseSpan(text(c.Input, keySpan)), spans, tail(c.Input))
		if err != nil {
			return commit{}, err
		}
		return commit{Change: do}, follows(st, do)
	})
}

// truncate removes a turn and all later ones from the path.
func (s *Service) truncate(ctx context.Context, c *Call) (edn.Value, *contract.Error) {
	return s.changed(ctx, c, "truncated", func(st state) (commit, *contract.Error) {
		path, failure := st.Path(0)
		if failure != nil {
			return commit{}, failed("read conversation "+st.ID, failure)
		}
		do, err := path.Truncate(turnOf(c.Input))
		return commit{Change: do}, err
	})
}

// restore makes the path equal to that of an earlier version.
func (s *Service) restore(ctx context.Context, c *Call) (edn.Value, *contract.Error) {
	return s.changed(ctx, c, "restored", func(st state) (commit, *contract.Error) {
		version, err := st.versionIn(c.Input)
		if err != nil {
			return commit{}, err
		}
		now, failure := st.Path(0)
		old := turns.Path(nil)
		if failure == nil && version > 0 {
			old, failure = st.Path(version)
		}
		if failure != nil {
			return commit{}, failed("read conversation "+st.ID, failure)
		}
		return commit{Change: now.Restore(old)}, nil
	})
}

// archive hides a conversation from lists, or with :archived? false shows it again.
func (s *Service) archive(ctx context.Context, c *Call) (edn.Value, *contract.Error) {
	id := text(c.Input, keyID)
	var of Conversation
	_, failure := s.store.Update(ctx, id, func(r Reader) (Change, error) {
		st, err := c.open(r, id)
		if err != nil {
			return Change{}, err
		}
		if err := s.thawed(ctx, st.Conversation); err != nil {
			return Change{}, err
		}
		of = st.Conversation
		of.Archived, of.Updated = flag(c.Input, "archived?", true), s.clock()
		set := of
		return Change{Set: &set}, nil
	})
	b := of.value()
	return b.Map(), failed("archive conversation "+id, failure)
}

// delete deletes a conversation and those that were spawned from it, or with :draft/id one
// of its drafts. Forks keep the turns that they share with it.
func (s *Service) delete(ctx context.Context, c *Call) (edn.Value, *contract.Error) {
	id, draft := text(c.Input, keyID), text(c.Input, keyDraft)
	leave, err := s.lines.enter(ctx, id, c.holder())
	if err != nil {
		return edn.Nil(), err
	}
	defer leave()
	_, failure := s.store.Update(ctx, id, func(r Reader) (Change, error) {
		if _, found := r.Conversation(); !found && c.Again {
			return Change{}, nil // this call has deleted it
		}
		st, err := c.open(r, id)
		if err != nil {
			return Change{}, err
		}
		if err := st.has(base(c.Input)); err != nil {
			return Change{}, err
		}
		if err := s.thawed(ctx, st.Conversation); err != nil {
			return Change{}, err
		}
		if draft == "" {
			return Change{Delete: true}, nil
		}
		all, failure := st.Drafts()
		if failure != nil {
			return Change{}, failure
		}
		if _, err := draftOf(all, draft); err != nil && !c.Again {
			return Change{}, err
		}
		return Change{DropDrafts: []string{draft}}, nil
	})
	if failure != nil {
		return edn.Nil(), failed("delete conversation "+id, failure)
	}
	var b edn.MapBuilder
	b.Key(keyID, edn.Text(id))
	b.OptText(keyDraft, draft)
	b.Key("deleted?", edn.Bool(true))
	return b.Map(), nil
}
