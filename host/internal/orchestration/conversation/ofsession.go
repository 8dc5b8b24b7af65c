package conversation

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/turns"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/conversation"
)

// kindAct is the Kind of commits that acts make in the conversation of their session.
const kindAct = "act"

// Appended returns the change that adds turns of acts to the conversation of a session. The
// conversation belongs to the owner of the session; found is false if this change creates
// it. The limit of turns on a path does not apply. Turns without text are skipped; if none
// remains, the change is empty.
func Appended(was Conversation, found bool, to session.Session, said []session.Turn) Change {
	messages := make([]conversation.Message, 0, len(said))
	var at time.Time
	for _, t := range said {
		if m := messageOf(t); !m.Empty() {
			messages, at = append(messages, m), t.At
		}
	}
	if len(messages) == 0 {
		return Change{}
	}
	now := at.Truncate(time.Millisecond)
	if !found {
		was = Conversation{ID: session.ConversationOf(to.ID), Owner: to.Owner, Session: to.ID, Created: now}
	}
	do := turns.Append(was.Turns, messages)
	was.Version, was.Turns, was.Updated = was.Version+1, was.Turns+len(do.Steps), now
	return Change{Set: &was, Path: &do, Commit: &Commit{Version: was.Version, Kind: kindAct, At: at}}
}

// Forgotten returns the session whose existing turns a change replaces or removes, and the
// lowest session turn number (which is a span number) among the steps from Change.Path.Keep
// on. A summary that covers that number is out of date. of is empty if the change touches
// no existing turn of a session.
func Forgotten(r Reader, c Change) (of string, turn int64, err error) {
	was, _ := r.Conversation()
	id, ok := session.OfConversation(was.ID)
	if !ok || c.Path == nil || c.Path.Keep >= was.Turns {
		return "", 0, nil
	}
	path, err := r.Path(0)
	for _, s := range path[min(c.Path.Keep, len(path)):] {
		if of == "" || s.Span < turn {
			of, turn = id, s.Span
		}
	}
	return of, turn, err
}

// messageOf returns the message of a turn. NUL characters, which models do not accept, are
// replaced: the act has ended, so that the turn cannot be rejected.
func messageOf(t session.Turn) conversation.Message {
	text := strings.ReplaceAll(t.Text, "\x00", "\ufffd")
	m := conversation.User(text)
	if t.Role == session.RoleAssistant {
		m = conversation.Assistant(text)
	}
	return m.WithAttribution(conversation.Attribution{Run: t.Run})
}

// TurnOf returns a span of a path as the turn of a session. It returns false for a span
// that acts do not get: one without text, or of another role than user and assistant.
func TurnOf(span int64, role conversation.Role, said []conversation.Message, at time.Time) (session.Turn, bool) {
	if role != conversation.RoleUser && role != conversation.RoleAssistant {
		return session.Turn{}, false
	}
	t := session.Turn{N: span, Role: string(role), At: at}
	var texts []string
	for _, m := range said {
		if text := m.Text(); strings.TrimSpace(text) != "" {
			texts = append(texts, text)
		}
		if t.Run == "" {
			t.Run = m.Attribution().Run
		}
	}
	t.Text = strings.Join(texts, "\n")
	return t, len(texts) > 0
}

// Sessions returns a store of sessions without durability, whose turns are
// conversations of m.
func (m *Memory) Sessions() session.Store {
	x := &memorySessions{talk: m}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessions = x
	return x
}

type memorySessions struct {
	session.Memory
	mu   sync.Mutex // held during an update of both stores
	talk *Memory
}

// Update implements session.Store.
func (x *memorySessions) Update(ctx context.Context, id string, change func(session.Stored) (session.Change, error)) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	var did session.Change
	var of session.Session
	err := x.Memory.Update(ctx, id, func(st session.Stored) (c session.Change, err error) {
		did, err = change(st)
		if c, of = did, st.Session; c.Session != nil {
			of = *c.Session
		}
		c.Turns = nil
		return c, err
	})
	if err != nil || !did.Delete && len(did.Turns) == 0 {
		return err
	}
	_, err = x.talk.Update(context.WithoutCancel(ctx), session.ConversationOf(id), func(r Reader) (Change, error) {
		if did.Delete {
			return Change{Delete: true}, nil
		}
		was, found := r.Conversation()
		return Appended(was, found, of, did.Turns), nil
	})
	return err
}

// forget removes the summary of a session if it covers a turn.
func (x *memorySessions) forget(ctx context.Context, id string, turn int64) error {
	if x == nil {
		return nil
	}
	return x.Memory.Update(context.WithoutCancel(ctx), id, func(st session.Stored) (c session.Change, _ error) {
		if of, changed := st.Session.Forgetting(turn); changed {
			c.Session = &of
		}
		return c, nil
	})
}

// Turns implements session.Store.
func (x *memorySessions) Turns(_ context.Context, id string, most int) (out []session.Turn, _ error) {
	x.talk.mu.RLock()
	defer x.talk.mu.RUnlock()
	for _, step := range slices.Backward(x.talk.byID[session.ConversationOf(id)].path(0)) {
		if len(out) == most {
			break
		}
		s := x.talk.spans[step.Span]
		if t, ok := TurnOf(step.Span, step.Role, s.messages, s.at); ok {
			out = append(out, t)
		}
	}
	slices.Reverse(out)
	return out, nil
}
