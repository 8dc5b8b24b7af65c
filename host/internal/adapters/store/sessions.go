package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fermenthq/ferment/host/internal/orchestration/act"
	"github.com/fermenthq/ferment/host/internal/orchestration/conversation"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/contract"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Sessions implements session.Store in the database of a Store, whose writer executes all updates.
type Sessions struct{ s *Store }

var (
	_ session.Store     = Sessions{}
	_ act.SessionKeeper = (*Store)(nil)
)

// Sessions returns the sessions of the store.
func (s *Store) Sessions() Sessions { return Sessions{s} }

// Update implements session.Store.
func (x Sessions) Update(ctx context.Context, id string, change func(session.Stored) (session.Change, error)) error {
	return x.s.change(ctx, func(ctx context.Context) error { return x.s.writer.updateSession(ctx, id, change) })
}

// updateSession executes a change of a session in the current transaction.
func (w *writer) updateSession(ctx context.Context, id string, change func(session.Stored) (session.Change, error)) error {
	row, err := readSession(ctx, w.sql, id)
	st := session.Stored{Found: err == nil, Session: row.Session, Expires: map[string]time.Time{}}
	var d *Damage
	switch {
	case errors.As(err, &d): // an error of another type would make the store fail
		return contract.Errorf("session/store-unavailable", "update session %s: %w", id, err)
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return err
	}
	var key string
	var expires time.Time
	err = w.sql.all(ctx, "session_keys", []any{row.n}, []any{&key, moment{&expires}}, func() error {
		st.Expires[key] = expires
		return nil
	})
	if err != nil {
		return err
	}
	c, err := change(st)
	if err != nil {
		return err
	}
	return w.saveSession(ctx, row.n, id, c)
}

// KeepsSessions implements act.SessionKeeper as a marker: it does nothing.
func (s *Store) KeepsSessions() {}

// addTurns adds the turns of a finished run to their session, in the transaction of the record. If
// the session or its conversation is damaged, it adds nothing and returns nil, because the run has
// finished anyway.
func (w *writer) addTurns(ctx context.Context, rec journal.Record) error {
	end, ok := rec.Body.(*journal.RunFinished)
	if !ok || end.SessionID == "" {
		return nil
	}
	err := w.updateSession(ctx, end.SessionID, func(st session.Stored) (session.Change, error) {
		return session.Appended(st, act.SessionOf(end), act.SessionTurns(rec.Run, rec.At, end), rec.At), nil
	})
	if errors.Is(err, contract.OfType("session/store-unavailable")) || errors.Is(err, contract.OfType("conversation/store-failed")) {
		return nil
	}
	return err
}

// saveTurns adds turns to the conversation of a session (CNV-022).
func (w *writer) saveTurns(ctx context.Context, to session.Session, said []session.Turn) error {
	r, err := openConversation(ctx, w.sql, session.ConversationOf(to.ID))
	if err != nil {
		return err
	}
	was, found := r.Conversation()
	_, err = w.saveConversation(ctx, r, conversation.Appended(was, found, to, said))
	return err
}

// limitSummary limits the summary of a session to the turns up to number last.
func (w *writer) limitSummary(ctx context.Context, id string, last int64) error {
	return w.changeSummary(ctx, id, func(s session.Session) (session.Session, bool) { return s.Limited(last) })
}

// forget removes the summary of a session if it covers the turn with a number, or a later one.
func (w *writer) forget(ctx context.Context, id string, turn int64) error {
	return w.changeSummary(ctx, id, func(s session.Session) (session.Session, bool) { return s.Forgetting(turn) })
}

// changeSummary applies change to a session and saves it if change reports a difference. It does
// nothing if the session does not exist or its row is damaged.
func (w *writer) changeSummary(ctx context.Context, id string, change func(session.Session) (session.Session, bool)) error {
	row, err := readSession(ctx, w.sql, id)
	var d *Damage
	switch {
	case errors.Is(err, sql.ErrNoRows), errors.As(err, &d):
		return nil
	case err != nil:
		return err
	}
	changed, differs := change(row.Session)
	if !differs {
		return nil
	}
	return w.saveSession(ctx, row.n, id, session.Change{Session: &changed})
}

// saveSession writes a change of the session with number n, 0 for a new one.
func (w *writer) saveSession(ctx context.Context, n int64, id string, c session.Change) error {
	if len(c.Turns) > 0 {
		if err := w.saveTurns(ctx, *c.Session, c.Turns); err != nil {
			return err
		}
	}
	if s := c.Session; s != nil {
		err := w.sql.one(ctx, "set_session", []any{
			s.ID, s.Owner, s.Version, stateOf(*s), nanos(s.Created), nanos(s.Updated), nanos(s.Accessed), nanos(s.FrozenAt),
			nanos(s.ThawedAt), w.s.db.text(s.Notes.String()),
		}, []any{&n})
		if err != nil {
			return err
		}
	}
	var errs []error
	exec := func(name string, args ...any) {
		_, err := w.sql.exec(ctx, name, args...)
		errs = append(errs, err)
	}
	if c.Delete {
		errs = append(errs, w.removeConversationOf(ctx, session.ConversationOf(id)))
		exec("remove_session_vars", n)
		exec("remove_session", n)
	}
	for _, v := range c.Put {
		exec("set_session_var", n, v.Key, nanos(v.Expires), v.Value.Canonical())
	}
	for _, key := range c.Drop {
		exec("remove_session_var", n, key)
	}
	return errors.Join(errs...)
}

// sessionRow is a row of the table sessions.
type sessionRow struct {
	session.Session
	n     int64
	state int
	notes string
}

// stateOf returns the stored state: 0 for a hot session, else 1 + FrozenBy.
func stateOf(s session.Session) int {
	if !s.Frozen {
		return 0
	}
	return 1 + int(s.FrozenBy)
}

func (r *sessionRow) columns() []any {
	return []any{
		&r.n, &r.ID, &r.Owner, &r.Version, &r.state, moment{&r.Created}, moment{&r.Updated}, moment{&r.Accessed},
		moment{&r.FrozenAt}, moment{&r.ThawedAt}, &r.notes,
	}
}

// read decodes the scanned columns. The error is a *Damage.
func (r *sessionRow) read() (err error) {
	r.Frozen, r.FrozenBy = r.state > 0, session.FrozenBy(max(0, r.state-1))
	if r.FrozenBy > session.ByIdleTTL {
		return &Damage{What: fmt.Sprintf("session %s has the state %d", r.ID, r.state)}
	}
	if r.Notes, err = edn.Read([]byte(r.notes), storedLimits); err != nil || !r.Notes.IsMap() {
		return &Damage{What: fmt.Sprintf("session %s has the notes %.80q", r.ID, r.notes)}
	}
	return nil
}

func readSession(ctx context.Context, from *statements, id string) (row sessionRow, err error) {
	if err = from.one(ctx, "session", []any{id}, row.columns()); err != nil {
		return sessionRow{}, err
	}
	return row, row.read()
}

// Session implements session.Store.
func (x Sessions) Session(ctx context.Context, id string) (session.Session, bool, error) {
	row, err := readSession(ctx, x.s.read, id)
	if errors.Is(err, sql.ErrNoRows) {
		return session.Session{}, false, nil
	}
	return row.Session, err == nil, err
}

// Sessions implements session.Store.
func (x Sessions) Sessions(ctx context.Context, f session.Filter) ([]session.Session, error) {
	name, args := "sessions", []any{f.After, f.Limit}
	if f.Owner != "" {
		name, args = "sessions_of", append(args, f.Owner)
	}
	return x.list(ctx, name, args...)
}

// Hot implements session.Store.
func (x Sessions) Hot(ctx context.Context) ([]session.Session, error) {
	return x.list(ctx, "hot_sessions_bare")
}

// Count implements session.Store.
func (x Sessions) Count(ctx context.Context) (n int, err error) {
	err = x.s.read.one(ctx, "count_sessions", nil, []any{&n})
	return n, err
}

func (x Sessions) list(ctx context.Context, query string, args ...any) (out []session.Session, err error) {
	var row sessionRow
	err = x.s.read.all(ctx, query, args, row.columns(), func() error {
		if err := row.read(); err != nil {
			return err
		}
		out = append(out, row.Session)
		return nil
	})
	return out, err
}

// Vars implements session.Store.
func (x Sessions) Vars(ctx context.Context, id string, keys ...string) (out []session.Var, err error) {
	var v session.Var
	var text []byte
	into := []any{&v.Key, moment{&v.Expires}, &text}
	each := func() error {
		if v.Value, err = edn.Read(text, storedLimits); err != nil {
			return &Damage{What: fmt.Sprintf("variable %s of session %s: %s", v.Key, id, err)}
		}
		out = append(out, v)
		return nil
	}
	if len(keys) == 0 {
		err := x.s.read.all(ctx, "session_vars", []any{id}, into, each)
		return out, err
	}
	for _, key := range slices.Compact(slices.Sorted(slices.Values(keys))) {
		if err := x.s.read.all(ctx, "session_var", []any{id, key}, into, each); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Turns implements session.Store.
func (x Sessions) Turns(ctx context.Context, id string, most int) ([]session.Turn, error) {
	r, err := openConversation(ctx, x.s.read, session.ConversationOf(id))
	if err != nil || r.n == 0 {
		return nil, err
	}
	var out []session.Turn
	for before := r.Turns; before > 0 && len(out) < most; before -= most {
		from := max(0, before-most)
		page, err := r.sessionTurns(from, before)
		if err != nil {
			return nil, err
		}
		out = append(page, out...)
	}
	return out[max(0, len(out)-most):], nil
}

// sessionTables lists the tables of sessions; each comes before those that refer to its rows.
var sessionTables = []string{"sessions", "session_vars", "session_turns"}

// openTurns is the maximum number of turns per session that Open reads. An act reads fewer.
const openTurns = 100

// verifyOpenSessions finds damaged pages that the next acts would read: it reads both ends of each
// B-tree of the tables of sessions, and the hot sessions. Its cost does not depend on the number of
// frozen sessions, which VerifySessions reads.
func (s *Store) verifyOpenSessions(ctx context.Context) error {
	for _, table := range sessionTables {
		var n int64
		if err := s.read.one(ctx, "probe_"+table, nil, []any{&n}); err != nil {
			return err
		}
	}
	var row sessionRow
	var hot []string
	err := s.read.all(ctx, "hot_sessions", nil, row.columns(), func() error { hot = append(hot, row.ID); return nil })
	if err != nil {
		return err
	}
	for _, id := range hot {
		if err := s.readThrough(ctx, id, openTurns); err != nil {
			return err
		}
	}
	return nil
}

// readThrough reads the variables and the last turns of a session, only to find damage.
func (s *Store) readThrough(ctx context.Context, id string, turns int) error {
	var v session.Var
	var text []byte
	err := s.read.all(ctx, "session_vars", []any{id}, []any{&v.Key, moment{&v.Expires}, &text}, func() error { return nil })
	if err != nil {
		return err
	}
	_, err = s.Sessions().Turns(ctx, id, turns)
	return err
}

// VerifySessions checks the pages of the tables of sessions and conversations, and then, if they
// have no damage, decodes every session with its variables and turns. It returns the number of
// decoded sessions and all damage that it found. These rows have no hashes: a changed row that can
// still be decoded is not detected.
func (s *Store) VerifySessions(ctx context.Context) (n int, out []*Damage, err error) {
	var there int
	if err := s.read.one(ctx, "sessions_table", nil, []any{&there}); err != nil || there == 0 {
		return 0, nil, err // the tables do not exist in older versions
	}
	tables := sessionTables
	if err := s.read.one(ctx, "conversations_table", nil, []any{&there}); err != nil {
		return 0, nil, err
	} else if there > 0 {
		tables = slices.Concat(tables, conversationTables)
	}
	for _, table := range tables {
		found, err := s.db.checkTable(ctx, table)
		if err != nil {
			return 0, nil, err
		}
		if found != "" {
			out = append(out, &Damage{What: fmt.Sprintf("the table %s: %s", table, strings.Join(strings.Fields(found), " "))})
		}
	}
	if len(out) > 0 {
		return 0, out, nil
	}
	check := func(err error) error {
		var d *Damage
		if errors.As(err, &d) {
			out, err = append(out, d), nil
		}
		return err
	}
	for after := ""; ; {
		var row sessionRow
		var ids []string
		err := s.read.all(ctx, "sessions", []any{after, page}, row.columns(), func() error {
			ids = append(ids, row.ID)
			return check(row.read())
		})
		if err = check(err); err != nil || len(ids) == 0 {
			return n, out, err
		}
		n, after = n+len(ids), ids[len(ids)-1]
		for _, id := range ids {
			if _, err := s.Sessions().Vars(ctx, id); check(err) != nil {
				return n, out, err
			}
			if err := s.readThrough(ctx, id, math.MaxInt32); check(err) != nil {
				return n, out, err
			}
		}
	}
}

// Purge implements session.Store.
func (x Sessions) Purge(ctx context.Context, at time.Time) (n int, err error) {
	err = x.s.change(ctx, func(ctx context.Context) error {
		removed, err := x.s.write.exec(ctx, "remove_expired_vars", nanos(at))
		n = int(removed)
		return err
	})
	return n, err
}

// Touch implements session.Store.
func (x Sessions) Touch(ctx context.Context, at map[string]time.Time) error {
	return x.s.change(ctx, func(ctx context.Context) error {
		for id, t := range at {
			if _, err := x.s.write.exec(ctx, "touch_session", id, nanos(t)); err != nil {
				return err
			}
		}
		return nil
	})
}
