package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"lukechampine.com/blake3"

	"github.com/fermenthq/ferment/host/internal/orchestration/conversation"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	messages "github.com/fermenthq/ferment/sdk/conversation"
	"github.com/fermenthq/ferment/sdk/edn"
)

// move converts rows between two versions of the schema, where SQL alone cannot.
type move func(ctx context.Context, m *mover) error

// movesOf returns the row conversions of the migration to a version; nil if it has none.
func movesOf(version int) (up, down move) {
	if version == 12 {
		return moveTalkUp, moveTurnsDown
	}
	return nil, nil
}

// mover holds the statements of row conversions. They fit the schema of version 12, and do not
// change with later versions.
type mover struct {
	*statements
	db database
}

func newMover(db database, on interface {
	PrepareContext(ctx context.Context, text string) (*sql.Stmt, error)
}) *mover {
	text := map[string]string{}
	for name, of := range moveText {
		if db.dialect() != "sqlite" {
			of = strings.ReplaceAll(of, "?", "$")
		}
		text[name] = of
	}
	return &mover{&statements{on: on, text: text, admit: db.admit}, db}
}

var moveText = map[string]string{
	"sessions": `SELECT n, id, owner, notes FROM sessions WHERE n IN (SELECT session FROM session_turns) ORDER BY n`,
	"turns":    `SELECT n, role, said, run, at FROM session_turns WHERE session = ?1 ORDER BY n`,
	"add": `INSERT INTO conversations (id, owner, session, version, turns, archived, created, updated, about)
		VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6, ?7, ?8) ON CONFLICT (id) DO NOTHING RETURNING n`,
	"add span": `INSERT INTO conversation_spans (turn, role, at) VALUES (0, ?1, ?2) RETURNING n`,
	"add content": `INSERT INTO conversation_content (hash, size, body) VALUES (?1, ?2, ?3)
		ON CONFLICT (hash) DO NOTHING`,
	"add message": `INSERT INTO conversation_messages (span, position, content, origin)
		SELECT ?1, 0, n, ?3 FROM conversation_content WHERE hash = ?2`,
	"add step": `INSERT INTO conversation_path (conversation, position, since, ended, turn, span, stale)
		VALUES (?1, ?2, ?3, 9223372036854775807, ?4, ?4, 0)`,
	"add commit": `INSERT INTO conversation_commits (conversation, version, kind, key, at) VALUES (?1, ?2, 'act', '', ?3)`,
	"set notes":  `UPDATE sessions SET notes = ?2 WHERE n = ?1`,
	"drop turns": `DELETE FROM session_turns WHERE n > 0`,

	"conversations": `SELECT n, archived, about FROM conversations ORDER BY n`,
	"first commit":  `SELECT key FROM conversation_commits WHERE conversation = ?1 AND version = 1`,
	"origins": `SELECT m.origin FROM conversation_path p JOIN conversation_messages m ON m.span = p.span
		WHERE p.conversation = ?1 ORDER BY p.position, m.position`,
	"set about": `UPDATE conversations SET about = ?2 WHERE n = ?1`,
	"add child": `INSERT INTO conversation_children (parent, child, run) VALUES (?1, ?2, ?3)`,

	"talks": `SELECT c.n, s.n, s.notes FROM conversations c LEFT JOIN sessions s ON s.id = substr(c.id, 9)
		WHERE c.id >= 'session/' AND c.id < 'session0' ORDER BY c.n`,
	"said": `SELECT s.n, s.role, s.at, c.body, m.origin FROM conversation_path p JOIN conversation_spans s ON s.n = p.span
		JOIN conversation_messages m ON m.span = p.span JOIN conversation_content c ON c.n = m.content
		WHERE p.conversation = ?1 AND p.ended = 9223372036854775807 ORDER BY p.position, m.position`,
	"add turn":       `INSERT INTO session_turns (session, role, said, run, at) VALUES (?1, ?2, ?3, ?4, ?5) RETURNING n`,
	"drop path":      `DELETE FROM conversation_path WHERE conversation = ?1`,
	"drop commits":   `DELETE FROM conversation_commits WHERE conversation = ?1`,
	"drop drafts":    `DELETE FROM conversation_drafts WHERE conversation = ?1`,
	"drop summaries": `DELETE FROM conversation_summaries WHERE conversation = ?1`,
	"drop talk":      `DELETE FROM conversations WHERE n = ?1`,
	"sweep spans":    `DELETE FROM conversation_spans WHERE n NOT IN (SELECT span FROM conversation_path)`,
	"sweep messages": `DELETE FROM conversation_messages WHERE span NOT IN (SELECT n FROM conversation_spans)`,
	"sweep content":  `DELETE FROM conversation_content WHERE n NOT IN (SELECT content FROM conversation_messages)`,
}

// run executes statements with the same arguments.
func (m *mover) run(ctx context.Context, args []any, names ...string) error {
	for _, name := range names {
		if _, err := m.exec(ctx, name, args...); err != nil {
			return err
		}
	}
	return nil
}

// movedSession is a session whose turns are moved.
type movedSession struct {
	n         int64
	id, owner string
	notes     string
}

// moveTalkUp converts the turns of sessions to paths of conversations, and fills the list of
// spawned conversations.
func moveTalkUp(ctx context.Context, m *mover) error {
	var all []movedSession
	var of movedSession
	err := m.all(ctx, "sessions", nil, []any{&of.n, &of.id, &of.owner, &of.notes}, func() error { all = append(all, of); return nil })
	for _, of := range all {
		if err == nil {
			err = m.turnsUp(ctx, of)
		}
	}
	return errors.Join(err, m.run(ctx, nil, "drop turns"), m.children(ctx))
}

// turnsUp converts the turns of one session. If the session already has a conversation, that is
// kept, because the turns are then remains of deleted rows that a repair found.
func (m *mover) turnsUp(ctx context.Context, of movedSession) error {
	var said []session.Turn
	var t session.Turn
	err := m.all(ctx, "turns", []any{of.n}, []any{&t.N, &t.Role, &t.Text, &t.Run, moment{&t.At}}, func() error {
		said = append(said, t)
		return nil
	})
	if err != nil {
		return err
	}
	versions := make([]int64, len(said))
	for i, t := range said {
		versions[i] = 1
		if i > 0 {
			if versions[i] = versions[i-1]; t.Run != said[i-1].Run || t.Run == "" {
				versions[i]++
			}
		}
	}
	var n int64
	last := len(said) - 1
	err = m.one(ctx, "add", []any{session.ConversationOf(of.id), of.owner, of.id, versions[last], len(said),
		nanos(said[0].At), nanos(said[last].At), m.db.text("{}")}, []any{&n})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	spans := map[int64]int64{}
	for i, t := range said {
		span, err := m.turnUp(ctx, n, i, versions[i], t)
		if err != nil {
			return err
		}
		if spans[t.N] = span; i == last || versions[i+1] > versions[i] {
			if _, err := m.exec(ctx, "add commit", n, versions[i], nanos(t.At)); err != nil {
				return err
			}
		}
	}
	return m.renumber(ctx, of, spans)
}

// turnUp appends a turn to a path and returns the number of its span.
func (m *mover) turnUp(ctx context.Context, n int64, position int, version int64, t session.Turn) (span int64, err error) {
	said := messages.User(t.Text)
	if t.Role == session.RoleAssistant {
		said = messages.Assistant(t.Text)
	}
	body := messageBody(said)
	hash := blake3.Sum256(body)
	if err := m.one(ctx, "add span", []any{t.Role, nanos(t.At)}, []any{&span}); err != nil {
		return 0, err
	}
	if _, err := m.exec(ctx, "add content", hash[:], len(body), body); err != nil {
		return 0, err
	}
	origin := m.db.text(messageOrigin(messages.Attribution{Run: t.Run}))
	if _, err := m.exec(ctx, "add message", span, hash[:], origin); err != nil {
		return 0, err
	}
	_, err = m.exec(ctx, "add step", n, position, version, span)
	return span, err
}

// renumber replaces, in the notes of a session, the number of the last turn that its summary
// covers. The new number is that of the greatest old turn number not above the old value. Damaged
// notes are not changed.
func (m *mover) renumber(ctx context.Context, of movedSession, numbers map[int64]int64) error {
	const key = "summarized-turns"
	notes, damaged := edn.Read([]byte(of.notes), storedLimits)
	covers, ok := notes.Key(key).AsInt()
	if damaged != nil || !ok {
		return nil
	}
	was, is := int64(0), int64(0)
	for old, number := range numbers {
		if old <= covers && old > was {
			was, is = old, number
		}
	}
	_, err := m.exec(ctx, "set notes", of.n, m.db.text(notes.AssocKey(key, edn.Int(is)).String()))
	return err
}

// children fills the list of spawned conversations. A conversation that the host created for an
// agent without recording the run gets the run that its messages name.
func (m *mover) children(ctx context.Context) error {
	type child struct {
		n, archived int64
		about       string
	}
	var all []child
	var c child
	err := m.all(ctx, "conversations", nil, []any{&c.n, &c.archived, &c.about}, func() error { all = append(all, c); return nil })
	if err != nil {
		return err
	}
	for _, c := range all {
		about, err := edn.Read([]byte(c.about), storedLimits)
		from := about.Key("from")
		kind, _ := from.Key("relation").AsKeyword()
		parent, _ := from.Key("id").AsString()
		if err != nil || kind != conversation.SpawnedFrom {
			continue
		}
		run, noted := from.Key("run").AsString()
		if !noted && c.archived > 0 {
			if run, err = m.delegator(ctx, c.n); err != nil {
				return err
			}
		}
		if run != "" && !noted {
			about = about.AssocKey("from", from.AssocKey("run", edn.Text(run)))
			if _, err := m.exec(ctx, "set about", c.n, m.db.text(about.String())); err != nil {
				return err
			}
		}
		if _, err := m.exec(ctx, "add child", parent, c.n, run); err != nil {
			return err
		}
	}
	return nil
}

// delegator returns the run that called an agent in conversation n; empty if no run did, or the
// agent has not answered.
func (m *mover) delegator(ctx context.Context, n int64) (run string, err error) {
	var key, origin string
	err = m.one(ctx, "first commit", []any{n}, []any{&key})
	switch {
	case errors.Is(err, sql.ErrNoRows), err == nil && !strings.HasPrefix(key, "delegate-"):
		return "", nil
	case err != nil:
		return "", err
	}
	err = m.all(ctx, "origins", []any{n}, []any{&origin}, func() error {
		if by, bad := readOrigin(origin); bad == nil && run == "" {
			run = by.Run
		}
		return nil
	})
	return run, err
}

// moveTurnsDown converts the current paths of the conversations of sessions back to turns. Other
// versions and alternatives of these paths are lost; forks are kept.
func moveTurnsDown(ctx context.Context, m *mover) error {
	type talk struct {
		n     int64
		of    sql.NullInt64 // invalid: the session is gone, and the conversation is only deleted
		notes sql.NullString
	}
	var all []talk
	var t talk
	err := m.all(ctx, "talks", nil, []any{&t.n, &t.of, &t.notes}, func() error { all = append(all, t); return nil })
	if err != nil {
		return err
	}
	for _, t := range all {
		if t.of.Valid {
			numbers, err := m.turnsDown(ctx, t.n, t.of.Int64)
			if err == nil {
				err = m.renumber(ctx, movedSession{n: t.of.Int64, notes: t.notes.String}, numbers)
			}
			if err != nil {
				return err
			}
		}
		if err := m.run(ctx, []any{t.n}, "drop path", "drop commits", "drop drafts", "drop summaries", "drop talk"); err != nil {
			return err
		}
	}
	return m.run(ctx, nil, "sweep spans", "sweep messages", "sweep content")
}

// turnsDown adds the turns of the current path of conversation n to session of. The result maps
// span numbers to turn numbers.
func (m *mover) turnsDown(ctx context.Context, n, of int64) (map[int64]int64, error) {
	turns, err := readTurns(func(into []any, each func() error) error { return m.all(ctx, "said", []any{n}, into, each) })
	if err != nil {
		return nil, err
	}
	numbers := map[int64]int64{}
	for _, t := range turns {
		var number int64
		err := m.one(ctx, "add turn", []any{of, t.Role, m.db.text(t.Text), t.Run, nanos(t.At)}, []any{&number})
		if err != nil {
			return nil, err
		}
		numbers[t.N] = number
	}
	return numbers, nil
}
