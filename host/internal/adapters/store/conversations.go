package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"lukechampine.com/blake3"

	"github.com/fermenthq/ferment/host/internal/domain/turns"
	"github.com/fermenthq/ferment/host/internal/orchestration/conversation"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/contract"
	messages "github.com/fermenthq/ferment/sdk/conversation"
)

// Conversations keeps conversations in the database of a Store, whose writer executes
// all updates.
type Conversations struct{ s *Store }

var _ conversation.Store = Conversations{}

// Conversations returns the conversations of the store.
func (s *Store) Conversations() Conversations { return Conversations{s} }

// Update implements conversation.Store.
func (x Conversations) Update(ctx context.Context, id string,
	decide func(conversation.Reader) (conversation.Change, error),
) (steps []turns.Step, err error) {
	err = x.s.change(ctx, func(ctx context.Context) error {
		r, err := openConversation(ctx, x.s.write, id)
		if err != nil {
			return err
		}
		c, err := decide(r)
		if err != nil {
			return err
		}
		steps, err = x.s.writer.saveConversation(ctx, r, c)
		return err
	})
	return steps, err
}

// saveConversation writes a change of a conversation in the current transaction.
func (w *writer) saveConversation(ctx context.Context, r *conversationReader, c conversation.Change) (steps []turns.Step, err error) {
	if c.Delete {
		return nil, w.removeConversation(ctx, r)
	}
	n := r.n
	if c.Set != nil {
		if n, err = w.setConversation(ctx, n, c.Set); err != nil {
			return nil, err
		}
	}
	version := r.Version
	if c.Set != nil {
		version = c.Set.Version
	}
	if c.Copy != nil {
		from, err := openConversation(ctx, w.sql, c.Copy.From)
		if err != nil {
			return nil, err
		}
		if _, err := w.sql.exec(ctx, "copy_conversation_path", n, from.n, c.Copy.Keep); err != nil {
			return nil, err
		}
	}
	at := w.s.opts.Now()
	if c.Commit != nil {
		at = c.Commit.At
	}
	if of, turn, err := conversation.Forgotten(r, c); err != nil {
		return nil, err
	} else if of != "" {
		if err := w.forget(ctx, of, turn); err != nil {
			return nil, err
		}
	}
	steps, err = w.savePath(ctx, n, version, r.Turns, c.Path, at)
	if err != nil {
		return nil, err
	}
	return steps, w.saveBeside(ctx, n, c)
}

// setConversation writes the row with number n, 0 for a new one, and returns the number.
func (w *writer) setConversation(ctx context.Context, n int64, of *conversation.Conversation) (int64, error) {
	about := w.s.db.text(aboutValue(*of).String())
	if n != 0 {
		_, err := w.sql.exec(ctx, "set_conversation", n, of.Version, of.Turns, numberOf(of.Archived), nanos(of.Updated), about)
		return n, err
	}
	err := w.sql.one(ctx, "add_conversation", []any{
		of.ID, of.Owner, of.Session, of.Version, of.Turns, numberOf(of.Archived), nanos(of.Created), nanos(of.Updated), about,
	}, []any{&n})
	if err == nil && of.From.Kind == conversation.SpawnedFrom {
		_, err = w.sql.exec(ctx, "add_conversation_child", of.From.ID, n, of.From.Run)
	}
	return n, err
}

// savePath ends the steps that a change replaces, from position c.Keep on, and adds the new ones,
// which it returns. A nil change does nothing. length is the number of steps before the change.
func (w *writer) savePath(ctx context.Context, n, version int64, length int, c *turns.Change, at time.Time) ([]turns.Step, error) {
	if c == nil {
		return nil, nil
	}
	numbers, err := w.addSpans(ctx, c.Spans, at)
	if err != nil {
		return nil, err
	}
	if c.Keep < length {
		if _, err := w.sql.exec(ctx, "end_conversation_path", n, c.Keep, version); err != nil {
			return nil, err
		}
	}
	steps := c.Numbered(numbers)
	args := make([]any, 0, 6*len(steps))
	for i, s := range steps {
		args = append(args, n, c.Keep+i, version, s.Turn, s.Span, numberOf(s.Stale))
	}
	return steps, w.sql.insert(ctx, "add_conversation_step", 6, args, nil, nil)
}

// addSpans stores spans with their messages, and returns their numbers in the order of spans. A
// message body that is already stored is not stored again.
func (w *writer) addSpans(ctx context.Context, spans []turns.Span, at time.Time) ([]turns.Number, error) {
	var args, contents, messages []any
	for _, s := range spans {
		args = append(args, s.Turn, string(s.Role), nanos(at))
	}
	var added []int64
	var n int64
	err := w.sql.insert(ctx, "add_conversation_span", 3, args, []any{&n}, func() error { added = append(added, n); return nil })
	if err != nil {
		return nil, err
	}
	slices.Sort(added) // numbers are assigned in the order of the spans
	numbers := make([]turns.Number, len(spans))
	for i, s := range spans {
		numbers[i] = turns.Number{Turn: s.Turn, Span: added[i]}
		if s.Turn == 0 {
			numbers[i].Turn = added[i]
		}
		for k, m := range s.Messages {
			body := messageBody(m)
			hash := blake3.Sum256(body)
			contents = append(contents, hash[:], len(body), body)
			messages = append(messages, added[i], k, hash[:], w.s.db.text(originText(m)))
		}
	}
	if err := w.sql.insert(ctx, "add_conversation_content", 3, contents, nil, nil); err != nil {
		return nil, err
	}
	return numbers, w.sql.insert(ctx, "add_conversation_message", 4, messages, nil, nil)
}

// saveBeside writes the parts of a change other than the path: commit, drafts and summary.
func (w *writer) saveBeside(ctx context.Context, n int64, c conversation.Change) error {
	var errs []error
	exec := func(name string, args ...any) {
		_, err := w.sql.exec(ctx, name, args...)
		errs = append(errs, err)
	}
	if k := c.Commit; k != nil {
		exec("add_conversation_commit", n, k.Version, k.Kind, k.Key, nanos(k.At))
	}
	for _, key := range c.DropDrafts {
		exec("remove_conversation_draft", n, key)
	}
	if d := c.AddDraft; d != nil {
		exec("set_conversation_draft", n, d.Key, d.Run, contract.MessageValue(d.Message).Canonical(), nanos(d.At))
	}
	if s := c.Summary; s != nil {
		exec("set_conversation_summary", n, s.Turns, s.Basis[:], w.s.db.text(s.Text), nanos(s.At))
	}
	return errors.Join(errs...)
}

// removeConversation deletes a conversation and those that were spawned from it. Their spans and
// contents stay until the next sweep. A summary of a session is deleted with its turns, because
// later turns can get the same numbers.
func (w *writer) removeConversation(ctx context.Context, r *conversationReader) error {
	if r.n == 0 {
		return nil
	}
	w.s.orphans.Store(true)
	children, err := w.ids(ctx, "conversation_children", r.ID)
	if err != nil {
		return err
	}
	for _, id := range children {
		if err := w.removeConversationOf(ctx, id); err != nil {
			return err
		}
	}
	for _, part := range []string{"_path", "_commits", "_drafts", "_summaries", ""} {
		if _, err := w.sql.exec(ctx, "remove_conversation"+part, r.n); err != nil {
			return err
		}
	}
	if err := w.removeChild(ctx, r); err != nil {
		return err
	}
	if id, ok := session.OfConversation(r.ID); ok {
		return w.forget(ctx, id, 1)
	}
	return nil
}

// removeChild deletes the entry of a conversation in the list of spawned ones. The parent of a
// conversation with a damaged description is unknown, so its entry is found by the child.
func (w *writer) removeChild(ctx context.Context, r *conversationReader) (err error) {
	switch {
	case r.damaged:
		_, err = w.sql.exec(ctx, "remove_conversation_as_child", r.n)
	case r.From.Kind == conversation.SpawnedFrom:
		_, err = w.sql.exec(ctx, "remove_conversation_child", r.From.ID, r.n)
	}
	return err
}

// removeConversationOf is removeConversation for an id. It also deletes a conversation whose
// description is damaged.
func (w *writer) removeConversationOf(ctx context.Context, id string) error {
	r, err := openConversation(ctx, w.sql, id)
	if err != nil && !r.damaged {
		return err
	}
	return w.removeConversation(ctx, r)
}

// ids returns the ids of conversations that a statement selects.
func (w *writer) ids(ctx context.Context, name string, args ...any) (out []string, err error) {
	var id string
	err = w.sql.all(ctx, name, args, []any{&id}, func() error { out = append(out, id); return nil })
	return out, err
}

// Read implements conversation.Store.
func (x Conversations) Read(ctx context.Context, id string, read func(conversation.Reader) error) error {
	r, err := openConversation(ctx, x.s.read, id)
	if err != nil {
		return err
	}
	return read(r)
}

// List implements conversation.Store.
func (x Conversations) List(ctx context.Context, f conversation.Filter) (out []conversation.Conversation, err error) {
	name, args := "conversations", []any{f.After, numberOf(f.Archived), f.Limit, f.Session}
	if f.Owner != "" {
		name, args = "conversations_of", append(args, f.Owner)
	}
	var row conversationRow
	err = x.s.read.all(ctx, name, args, row.columns(), func() error {
		if err := row.read(); err != nil {
			return err
		}
		out = append(out, row.Conversation)
		return nil
	})
	return out, err
}

// Sweep implements conversation.Store.
func (x Conversations) Sweep(ctx context.Context) (out conversation.Swept, err error) {
	if !x.s.orphans.Swap(false) {
		return out, nil
	}
	err = x.s.change(ctx, func(ctx context.Context) (err error) {
		out, err = x.s.writer.sweep(ctx)
		return err
	})
	if err != nil {
		x.s.orphans.Store(true)
	}
	return out, err
}

// sweep deletes the spans that are in no path, then the messages and contents that only they used.
func (w *writer) sweep(ctx context.Context) (out conversation.Swept, err error) {
	if out.Spans, err = w.sql.exec(ctx, "sweep_conversation_spans"); err != nil || out.Spans == 0 {
		return out, err
	}
	if _, err = w.sql.exec(ctx, "sweep_conversation_messages"); err != nil {
		return out, err
	}
	out.Contents, err = w.sql.exec(ctx, "sweep_conversation_content")
	return out, err
}

// messageBody returns the stored form of a message without its attribution, so that equal messages
// of different origin are stored once.
func messageBody(m messages.Message) []byte {
	return contract.MessageValue(m.WithAttribution(messages.Attribution{})).Canonical()
}

func numberOf(is bool) int {
	if is {
		return 1
	}
	return 0
}
