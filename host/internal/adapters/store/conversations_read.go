package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/fermenthq/ferment/host/internal/domain/turns"
	"github.com/fermenthq/ferment/host/internal/orchestration/conversation"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/contract"
	messages "github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/edn"
)

// conversationRow is a row of the table conversations.
type conversationRow struct {
	conversation.Conversation
	n        int64
	archived int
	about    string
	damaged  bool // the column about cannot be read; the other columns are valid
}

func (r *conversationRow) columns() []any {
	return []any{
		&r.n, &r.ID, &r.Owner, &r.Session, &r.Version, &r.Turns, &r.archived, moment{&r.Created}, moment{&r.Updated}, &r.about,
	}
}

// read decodes the scanned columns. The error is a *Damage if the column about cannot be read.
func (r *conversationRow) read() error {
	r.Archived, r.Number = r.archived != 0, r.n
	about, err := edn.Read([]byte(r.about), storedLimits)
	if r.damaged = err != nil || !about.IsMap(); r.damaged {
		return &Damage{What: fmt.Sprintf("conversation %s has the description %.80q", r.ID, r.about)}
	}
	r.Title, _ = about.Key("title").AsString()
	r.Key, _ = about.Key("key").AsString()
	r.From = conversation.Relation{}
	from := about.Key("from")
	r.From.Kind, _ = from.Key("relation").AsKeyword()
	r.From.ID, _ = from.Key("id").AsString()
	r.From.Turn, _ = from.Key("turn").AsInt()
	r.From.Call, _ = from.Key("call").AsString()
	r.From.Span, _ = from.Key("span").AsInt()
	depth, _ := from.Key("depth").AsInt()
	r.From.Depth = int(depth)
	r.From.Run, _ = from.Key("run").AsString()
	return nil
}

// aboutValue returns the properties of a conversation that share the column about: its title and
// its origin.
func aboutValue(c conversation.Conversation) edn.Value {
	var b edn.MapBuilder
	b.OptText("title", c.Title)
	b.OptText("key", c.Key)
	if f := c.From; f.Kind != "" {
		var from edn.MapBuilder
		from.Key("relation", edn.K(f.Kind))
		from.Key("id", edn.Text(f.ID))
		from.OptInt("turn", f.Turn)
		from.OptText("call", f.Call)
		from.OptInt("span", f.Span)
		from.OptInt("depth", int64(f.Depth))
		from.OptText("run", f.Run)
		b.Key("from", from.Map())
	}
	return b.Map()
}

// conversationReader reads a conversation with the statements of one connection. The steps of a
// version do not change, so the results of several queries for one version are consistent.
type conversationReader struct {
	conversationRow
	ctx  context.Context
	from *statements
}

var _ conversation.Reader = (*conversationReader)(nil)

func openConversation(ctx context.Context, from *statements, id string) (*conversationReader, error) {
	r := &conversationReader{ctx: ctx, from: from}
	err := from.one(ctx, "conversation", []any{id}, r.columns())
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return r, nil
	case err == nil:
		err = r.read()
	}
	return r, unusable(id, err)
}

// unusable turns a *Damage of a conversation into an error of type conversation/store-failed, so
// that it does not stop the whole store. Other errors are returned as they are.
func unusable(id string, err error) error {
	var d *Damage
	if errors.As(err, &d) {
		return contract.Errorf("conversation/store-failed", "read conversation %s: %w", id, err).WithRetryable(false)
	}
	return err
}

// Conversation implements conversation.Reader.
func (r *conversationReader) Conversation() (conversation.Conversation, bool) {
	return r.conversationRow.Conversation, r.n != 0
}

func (r *conversationReader) version(version int64) int64 {
	if version == 0 {
		return r.Version
	}
	return version
}

func (r *conversationReader) all(name string, args, into []any, each func() error) error {
	return unusable(r.ID, r.from.all(r.ctx, name, args, into, each))
}

// Path implements conversation.Reader.
func (r *conversationReader) Path(version int64) (out turns.Path, err error) {
	var s turns.Step
	var role string
	var stale int
	err = r.all("conversation_path", []any{r.n, r.version(version)}, []any{&s.Turn, &s.Span, &role, &stale}, func() error {
		s.Role, s.Stale = messages.Role(role), stale != 0
		out = append(out, s)
		return nil
	})
	return out, err
}

// Messages implements conversation.Reader.
func (r *conversationReader) Messages(version int64, from int) (out [][]messages.Message, err error) {
	var position, span int64
	row, before := messageRow{}, int64(-1)
	err = r.all("conversation_messages", []any{r.n, r.version(version), from}, append([]any{&position, &span}, row.columns()...), func() error {
		m, err := row.message(span)
		if err != nil {
			return err
		}
		if position != before {
			out, before = append(out, nil), position
		}
		out[len(out)-1] = append(out[len(out)-1], m)
		return nil
	})
	return out, err
}

// sessionTurns returns the turns of a session from the steps of the current path at the positions
// from up to, but without, to.
func (r *conversationReader) sessionTurns(from, to int) ([]session.Turn, error) {
	return readTurns(func(into []any, each func() error) error {
		return r.all("session_turns", []any{r.n, from, to}, into, each)
	})
}

// readTurns assembles the turns of a session from rows that have the number, role and time of a
// span and one of its messages.
func readTurns(all func(into []any, each func() error) error) (out []session.Turn, err error) {
	type span struct {
		n    int64
		role string
		at   time.Time
	}
	var of, next span
	var said []messages.Message
	add := func() {
		if t, ok := conversation.TurnOf(of.n, messages.Role(of.role), said, of.at); ok {
			out = append(out, t)
		}
	}
	var row messageRow
	err = all(append([]any{&next.n, &next.role, moment{&next.at}}, row.columns()...), func() error {
		m, err := row.message(next.n)
		if err != nil {
			return err
		}
		if next.n != of.n {
			add()
			of, said = next, nil
		}
		said = append(said, m)
		return nil
	})
	add()
	return out, err
}

// messageRow is a message as it is stored.
type messageRow struct {
	body   []byte
	origin string
}

func (r *messageRow) columns() []any { return []any{&r.body, &r.origin} }

func (r *messageRow) message(span int64) (messages.Message, error) {
	m, err := readMessage(r.body)
	if err != nil {
		return m, &Damage{What: fmt.Sprintf("a message of span %d: %s", span, err)}
	}
	by, err := readOrigin(r.origin)
	if err != nil {
		return m, &Damage{What: fmt.Sprintf("the origin of a message of span %d: %s", span, err)}
	}
	return m.WithAttribution(by), nil
}

func readMessage(body []byte) (messages.Message, error) {
	v, err := edn.Read(body, storedLimits)
	if err != nil {
		return messages.Message{}, err
	}
	m, bad := contract.MessageFromValue(v)
	if bad != nil {
		return m, bad
	}
	return m, nil
}

// originText returns the stored form of the attribution of a message; empty if it has none.
func originText(m messages.Message) string {
	return messageOrigin(m.Attribution())
}

func messageOrigin(by messages.Attribution) string {
	if by == (messages.Attribution{}) {
		return ""
	}
	var b edn.MapBuilder
	for _, part := range origins(&by) {
		b.OptText(part.key, *part.text)
	}
	return b.Map().String()
}

type originPart struct {
	key  string
	text *string
}

func origins(by *messages.Attribution) []originPart {
	return []originPart{
		{"agent", &by.Agent}, {"capability", &by.Capability}, {"model", &by.Model}, {"run", &by.Run}, {"finish", &by.Finish},
	}
}

func readOrigin(text string) (by messages.Attribution, err error) {
	if text == "" {
		return by, nil
	}
	v, err := edn.Read([]byte(text), storedLimits)
	if err != nil {
		return by, err
	}
	for _, part := range origins(&by) {
		*part.text, _ = v.Key(part.key).AsString()
	}
	return by, nil
}

// Spans implements conversation.Reader.
func (r *conversationReader) Spans(turn int64) (out []int64, err error) {
	var n int64
	err = r.all("conversation_spans", []any{r.n, turn}, []any{&n}, func() error {
		out = append(out, n)
		return nil
	})
	return out, err
}

// Said implements conversation.Reader.
func (r *conversationReader) Said(span int64) (out []messages.Message, err error) {
	var row messageRow
	err = r.all("conversation_span", []any{span}, row.columns(), func() error {
		m, err := row.message(span)
		out = append(out, m)
		return err
	})
	return out, err
}

// Committed implements conversation.Reader.
func (r *conversationReader) Committed(key string) (c conversation.Commit, found bool, err error) {
	if key == "" {
		return c, false, nil
	}
	err = r.all("conversation_commit", []any{r.n, key}, commitColumns(&c), func() error {
		found = true
		return nil
	})
	return c, found, err
}

func commitColumns(c *conversation.Commit) []any {
	return []any{&c.Version, &c.Kind, &c.Key, moment{&c.At}}
}

// Commits implements conversation.Reader.
func (r *conversationReader) Commits(most int) (out []conversation.Commit, err error) {
	var c conversation.Commit
	err = r.all("conversation_commits", []any{r.n, most}, commitColumns(&c), func() error {
		out = append(out, c)
		return nil
	})
	return out, err
}

// Drafts implements conversation.Reader.
func (r *conversationReader) Drafts() (out []conversation.Draft, err error) {
	var d conversation.Draft
	var body []byte
	err = r.all("conversation_drafts", []any{r.n}, []any{&d.Key, &d.Run, &body, moment{&d.At}}, func() (err error) {
		if d.Message, err = readMessage(body); err != nil {
			return &Damage{What: fmt.Sprintf("a draft of conversation %s: %s", r.ID, err)}
		}
		out = append(out, d)
		return nil
	})
	return out, err
}

// Summaries implements conversation.Reader.
func (r *conversationReader) Summaries() (out []conversation.Summary, err error) {
	var s conversation.Summary
	var basis []byte
	err = r.all("conversation_summaries", []any{r.n}, []any{&s.Turns, &basis, &s.Text, moment{&s.At}}, func() error {
		if copy(s.Basis[:], basis) == len(s.Basis) {
			out = append(out, s)
		}
		return nil
	})
	return out, err
}

// Of implements conversation.Reader.
func (r *conversationReader) Of(id string) (conversation.Reader, error) {
	other, err := openConversation(r.ctx, r.from, id)
	if err != nil {
		return nil, err
	}
	return other, nil
}
