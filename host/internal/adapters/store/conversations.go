package store

import (
	"context"
	"database/sql"
	"errors"

	"lukechampine.com/blake3"

	"github.com/fermenthq/ferment/host/internal/domain/turns"
	"github.com/fermenthq/ferment/host/internal/orchestration/conversation"
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
func (w *writer) saveConversation(ctx context.Context, r *conversationReader, c conversation.Change) ([]turns.Step, error) {
	if c.Delete {
		return nil, w.removeConversation(ctx, r.n)
	}
	n := r.n
	if c.Set != nil {
		of := c.Set
		err := w.sql.one(ctx, "set_conversation", []any{
			of.ID, of.Owner, of.Session, of.Version, of.Turns, numberOf(of.Archived), nanos(of.Created), nanos(of.Updated),
			w.s.db.text(aboutValue(*of).String()),
		}, []any{&n})
		if err != nil {
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
	steps, err := w.savePath(ctx, n, version, r.Turns, c.Path)
	if err != nil {
		return nil, err
	}
	return steps, w.saveBeside(ctx, n, c)
}

// savePath ends the steps of a path that a change replaces, and adds those that follow.
func (w *writer) savePath(ctx context.Context, n, version int64, length int, c *turns.Change) ([]turns.Step, error) {
	if c == nil {
		return nil, nil
	}
	numbers := make([]turns.Number, len(c.Spans))
	for i, span := range c.Spans {
		var err error
		if numbers[i], err = w.addSpan(ctx, span); err != nil {
			return nil, err
		}
	}
	if c.Keep < length {
		if _, err := w.sql.exec(ctx, "end_conversation_path", n, c.Keep, version); err != nil {
			return nil, err
		}
	}
	steps := c.Numbered(numbers)
	for i, s := range steps {
		if _, err := w.sql.exec(ctx, "add_conversation_step", n, c.Keep+i, version, s.Turn, s.Span, numberOf(s.Stale)); err != nil {
			return nil, err
		}
	}
	return steps, nil
}

// addSpan stores a span with its messages.
func (w *writer) addSpan(ctx context.Context, s turns.Span) (turns.Number, error) {
	out := turns.Number{Turn: s.Turn}
	err := w.sql.one(ctx, "add_conversation_span", []any{s.Turn, string(s.Role), nanos(w.s.opts.Now())}, []any{&out.Span})
	if out.Turn == 0 {
		out.Turn = out.Span
	}
	for i, m := range s.Messages {
		if err != nil {
			break
		}
		var content int64
		if content, err = w.addContent(ctx, messageBody(m)); err == nil {
			_, err = w.sql.exec(ctx, "add_conversation_message", out.Span, i, content, w.s.db.text(originText(m)))
		}
	}
	return out, err
}

// addContent returns the number of the content with a body, which is stored once.
func (w *writer) addContent(ctx context.Context, body []byte) (n int64, err error) {
	hash := blake3.Sum256(body)
	err = w.sql.one(ctx, "conversation_content", []any{hash[:]}, []any{&n})
	if errors.Is(err, sql.ErrNoRows) {
		err = w.sql.one(ctx, "add_conversation_content", []any{hash[:], len(body), body}, []any{&n})
	}
	return n, err
}

// saveBeside writes what a change has besides the path.
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

func (w *writer) removeConversation(ctx context.Context, n int64) error {
	for _, part := range []string{"_path", "_commits", "_drafts", "_summaries", ""} {
		if _, err := w.sql.exec(ctx, "remove_conversation"+part, n); err != nil {
			return err
		}
	}
	return nil
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
	name, args := "conversations", []any{f.After, numberOf(f.Archived), f.Limit}
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
	err = x.s.change(ctx, func(ctx context.Context) (err error) {
		if out.Spans, err = x.s.write.exec(ctx, "sweep_conversation_spans"); err != nil || out.Spans == 0 {
			return err
		}
		if _, err = x.s.write.exec(ctx, "sweep_conversation_messages"); err != nil {
			return err
		}
		out.Contents, err = x.s.write.exec(ctx, "sweep_conversation_content")
		return err
	})
	return out, err
}

// messageBody is the stored form of a message: its origin is not part of it, so that
// equal messages are stored once.
func messageBody(m messages.Message) []byte {
	return contract.MessageValue(m.WithAttribution(messages.Attribution{})).Canonical()
}

func numberOf(is bool) int {
	if is {
		return 1
	}
	return 0
}
