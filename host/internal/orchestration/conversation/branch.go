package conversation

import (
	"context"
	"slices"

	"github.com/fermenthq/ferment/host/internal/domain/turns"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/edn"
)

// maxDepth is the maximum depth of spawned conversations (CNV-014).
const maxDepth = 3

// noResult is the result of a spawned conversation without a text of an assistant.
const noResult = "(no result)"

// fork creates a conversation whose path is that of another one up to and including a turn,
// by default the whole path. The turns are shared.
func (s *Service) fork(ctx context.Context, c *Call) (edn.Value, *contract.Error) {
	return s.branch(ctx, c, ForkedFrom, func(st state, _ *Conversation) (*Copy, int64, *contract.Error) {
		if !c.Input.HasKey(keyTurn) {
			return &Copy{From: st.ID, Keep: st.Turns}, 0, nil
		}
		path, failure := st.Path(0)
		if failure != nil {
			return nil, 0, failed("read conversation "+st.ID, failure)
		}
		i, err := path.Index(turnOf(c.Input))
		if err != nil {
			return nil, 0, err
		}
		return &Copy{From: st.ID, Keep: i + 1}, path[i].Turn, nil
	})
}

// spawn creates an empty conversation that belongs to a turn of another one, by default its
// last turn. :tool/id names the tool call of that turn that the result of the new
// conversation will answer.
func (s *Service) spawn(ctx context.Context, c *Call) (edn.Value, *contract.Error) {
	return s.branch(ctx, c, SpawnedFrom, func(st state, of *Conversation) (*Copy, int64, *contract.Error) {
		if of.From.Depth++; of.From.Depth > maxDepth {
			return nil, 0, contract.Errorf("conversation/too-large", "conversation %s would be spawned at depth %d, "+
				"the limit is %d", of.ID, of.From.Depth, maxDepth).
				WithDetail("limit", edn.Int(maxDepth)).WithDetail("found", edn.Int(int64(of.From.Depth))).
				WithHint("spawn it from a conversation that is less deep")
		}
		path, failure := st.Path(0)
		if failure != nil {
			return nil, 0, failed("read conversation "+st.ID, failure)
		}
		i := len(path) - 1
		if c.Input.HasKey(keyTurn) {
			var err *contract.Error
			if i, err = path.Index(turnOf(c.Input)); err != nil {
				return nil, 0, err
			}
		}
		call := text(c.Input, keyCall)
		if i < 0 {
			if call != "" {
				return nil, 0, unknownCall(call, st.ID)
			}
			return nil, 0, nil
		}
		if call != "" {
			said, failure := st.Said(path[i].Span)
			if failure != nil {
				return nil, 0, failed("read conversation "+st.ID, failure)
			}
			if !calls(said, call) {
				return nil, 0, unknownCall(call, st.ID)
			}
			of.From.Call, of.From.Span = call, path[i].Span
		}
		return nil, path[i].Turn, nil
	})
}

func unknownCall(call, id string) *contract.Error {
	return contract.Errorf("conversation/invalid-message", "the turn of conversation %s makes no tool call %q", id, call).
		WithDetail("path", edn.Vector(edn.K(keyCall)))
}

func calls(messages []conversation.Message, id string) bool {
	for _, m := range messages {
		for call := range m.Calls() {
			if call.ID == id {
				return true
			}
		}
	}
	return false
}

// branch creates a conversation from another one. at returns the steps to copy, nil for
// none, and the turn at which the new conversation branches off.
func (s *Service) branch(ctx context.Context, c *Call, kind string,
	at func(state, *Conversation) (*Copy, int64, *contract.Error),
) (edn.Value, *contract.Error) {
	from := text(c.Input, keyID)
	id, err := c.newID(keyNew)
	if err != nil {
		return edn.Nil(), err
	}
	var of Conversation
	_, failure := s.store.Update(ctx, id, func(r Reader) (Change, error) {
		other, failure := r.Of(from)
		if failure != nil {
			return Change{}, failure
		}
		st, err := c.open(other, from)
		if err != nil {
			return Change{}, err
		}
		if there, found := r.Conversation(); found {
			return Change{}, s.existing(c, r, there, &of)
		}
		if err := st.has(base(c.Input)); err != nil {
			return Change{}, err
		}
		now := s.clock()
		of = Conversation{
			ID: id, Owner: c.Caller.Principal, Session: c.Session, Title: st.Title, Created: now, Updated: now,
			From: Relation{Kind: kind, ID: from, Depth: st.From.Depth}, Key: c.Key,
		}
		if len(c.task) > 0 {
			of.From.Run = c.Run
		}
		if title := text(c.Input, "title"); title != "" {
			of.Title = title
		}
		if err := s.thawed(ctx, of); err != nil {
			return Change{}, err
		}
		copied, turn, err := at(st, &of)
		if err != nil {
			return Change{}, err
		}
		of.From.Turn = turn
		return begun(c, &of, copied)
	})
	if failure != nil {
		return edn.Nil(), failed(nameOf(c.Intent)+" conversation "+from, failure)
	}
	b := of.value()
	return b.Map(), nil
}

// begun returns the change that creates a conversation, with the first steps of another one
// or with the task of its call. It sets version and turns of of.
func begun(c *Call, of *Conversation, copied *Copy) (made Change, err error) {
	first := Commit{Version: 1, Kind: nameOf(c.Intent), Key: c.Key, At: of.Created}
	switch {
	case copied != nil && copied.Keep > 0:
		of.Version, of.Turns = 1, copied.Keep
		made.Copy, made.Commit = copied, &first
	case len(c.task) > 0:
		do := turns.Append(0, c.task)
		if err := do.Fits(0); err != nil {
			return made, err
		}
		of.Version, of.Turns, of.Archived = 1, len(do.Steps), true
		made.Path, made.Commit = &do, &first
	}
	set := *of
	made.Set = &set
	return made, nil
}

// existing handles a new conversation whose id is in use, which includes a conversation
// created from itself. If the same call has created it before, existing sets of to it and
// returns nil, else conversation/conflict; for a conversation that the caller may not use, the
// error of taken.
func (s *Service) existing(c *Call, r Reader, there Conversation, of *Conversation) error {
	if _, err := c.open(r, there.ID); err != nil {
		return taken(there.ID, err)
	}
	_, made, err := r.Committed(c.Key) // an older version stored no key of the conversation
	if err != nil {
		return err
	}
	if (made || c.Key != "" && there.Key == c.Key) && there.Owner == c.Caller.Principal {
		*of = there
		return nil
	}
	return contract.Errorf("conversation/conflict", "conversation %s already exists", there.ID).
		WithDetail("path", edn.Vector(edn.K(keyNew))).
		WithRetryable(false).WithHint("choose another id for the new conversation, or leave it out")
}

// result returns the text of the last message of an assistant. With :link? it also commits
// this text as the result of the tool call for which the conversation was spawned, to the
// conversation that made the call.
func (s *Service) result(ctx context.Context, c *Call) (edn.Value, *contract.Error) {
	id := text(c.Input, keyID)
	var of Conversation
	var said string
	err := s.read(ctx, c, id, func(st state) error {
		of = st.Conversation
		all, err := st.Messages(0, 0)
		if err != nil {
			return err
		}
		said = resultOf(flat(all))
		return nil
	})
	if err != nil {
		return edn.Nil(), err
	}
	var b edn.MapBuilder
	b.Key(keyID, edn.Text(id))
	b.Key("text", edn.Text(said))
	if !flag(c.Input, "link?", false) {
		return b.Map(), nil
	}
	if of.From.Kind != SpawnedFrom || of.From.Call == "" {
		return edn.Nil(), contract.Errorf("conversation/invalid-message", "conversation %s was not spawned for a tool call, so it "+
			"cannot return a result", id).WithDetail("path", edn.Vector(edn.K("link?")))
	}
	w, err := s.link(ctx, c, of.From, said)
	if err != nil {
		return edn.Nil(), err
	}
	linked := w.value()
	b.Key("linked", linked.Map())
	return b.Map(), nil
}

// link commits a text as the result of a tool call to the conversation that made the call.
func (s *Service) link(ctx context.Context, c *Call, to Relation, said string) (written, *contract.Error) {
	leave, err := s.lines.enter(ctx, to.ID, c.holder())
	if err != nil {
		return written{}, err
	}
	defer leave()
	return s.change(ctx, c, to.ID, anyVersion, func(st state) (commit, *contract.Error) {
		if err := st.awaits(to); err != nil {
			return commit{}, err
		}
		do := turns.Append(st.Turns, []conversation.Message{conversation.ToolResult(to.Call, said)})
		return commit{Change: do}, follows(st, do)
	})
}

// awaits returns nil if a result that is added to the path answers the tool call of a relation. The
// error is conversation/turn-not-in-path if the alternative that makes the call is not selected, and
// conversation/invalid-message if the call has a result, or a later one has its id.
func (st state) awaits(to Relation) *contract.Error {
	path, said, failure := st.whole()
	if failure != nil {
		return failed("read conversation "+st.ID, failure)
	}
	i, err := path.Index(to.Turn)
	switch {
	case err != nil:
		return err
	case to.Span != 0 && path[i].Span != to.Span:
		return contract.Errorf("conversation/turn-not-in-path",
			"the tool call %q of turn %s of conversation %s is in alternative %s, but %s is selected",
			to.Call, turns.TurnID(to.Turn), st.ID, turns.SpanID(to.Span), turns.SpanID(path[i].Span)).
			WithDetail(keyTurn, edn.Text(turns.TurnID(to.Turn))).
			WithHint("select the alternative, or spawn a conversation for a call on the path")
	}
	before := slices.Collect(flat(said[:i]))
	at, open := turns.Open(slices.Collect(flat(said)))[to.Call]
	if !open || at < len(before) || at >= len(before)+len(said[i]) {
		return contract.Errorf("conversation/invalid-message",
			"the tool call %q of turn %s of conversation %s has a result already, or a later call has its id",
			to.Call, turns.TurnID(to.Turn), st.ID)
	}
	return nil
}
