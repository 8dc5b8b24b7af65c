package store

import (
	"context"
	"errors"

	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	messages "github.com/fermenthq/ferment/sdk/conversation"
)

// erase deletes the data of a purged run in conversations: the turns that it added to a session,
// from all versions of the path, and the conversations of the agents that its agents called. A text
// that another path uses, such as that of a fork, is kept. If the run may also have been in a
// deleted path, erase sweeps the contents that no path uses.
func (w *writer) erase(ctx context.Context, run string) error {
	origin := w.s.db.text(messageOrigin(messages.Attribution{Run: run}))
	spans := map[int64]map[int64]bool{} // numbers of the spans, by conversation
	var of, span int64
	err := w.sql.all(ctx, "session_turns_of_run", []any{origin}, []any{&of, &span}, func() error {
		if spans[of] == nil {
			spans[of] = map[int64]bool{}
		}
		spans[of][span] = true
		return nil
	})
	if err != nil {
		return err
	}
	for n, of := range spans {
		if err := w.eraseSpans(ctx, n, of); err != nil {
			return err
		}
	}
	delegated, err := w.removeDelegated(ctx, run, false)
	if err != nil || len(spans)+delegated == 0 && !w.mayHaveOrphans() {
		return err
	}
	_, err = w.sweep(ctx)
	return err
}

// mayHaveOrphans reports whether there may be content that no conversation uses. With a shared
// database it is always true, because deletions by other hosts are not tracked.
func (w *writer) mayHaveOrphans() bool { return w.s.shared != nil || w.s.orphans.Load() }

// removeDelegated deletes the conversations of the agents that agents of a run called, and returns
// their number. With kept, conversations that a caller has taken out of the archive are not
// deleted.
func (w *writer) removeDelegated(ctx context.Context, run string, kept bool) (int, error) {
	ids, err := w.ids(ctx, "conversation_children_of_run", run, numberOf(kept))
	for _, id := range ids {
		err = errors.Join(err, w.removeConversationOf(ctx, id)) // may have been deleted with its parent
	}
	return len(ids), err
}

// pathRow is a step that belongs to the versions from since up to, but without, ended.
type pathRow struct{ n, position, since, ended, span int64 }

// within reports whether step r belongs to the version in which other begins.
func (r pathRow) within(other pathRow) bool { return r.since <= other.since && other.since < r.ended }

// eraseSpans deletes spans from all versions of a path. The steps before a given step are the same
// in all versions that have it, so a step moves by the same number of positions in all of them.
func (w *writer) eraseSpans(ctx context.Context, n int64, spans map[int64]bool) error {
	var erased, kept []pathRow
	var r pathRow
	columns := []any{&r.n, &r.position, &r.since, &r.ended, &r.span}
	err := w.sql.all(ctx, "conversation_steps", []any{n}, columns, func() error {
		if spans[r.span] {
			erased = append(erased, r)
		} else {
			kept = append(kept, r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, r := range erased {
		if _, err := w.sql.exec(ctx, "remove_conversation_step", r.n); err != nil {
			return err
		}
	}
	turns, last := 0, int64(0)
	for _, r := range kept {
		to := r.position
		for _, e := range erased {
			if e.position < r.position && e.within(r) {
				to--
			}
		}
		if to < r.position {
			if _, err := w.sql.exec(ctx, "move_conversation_step", r.n, to); err != nil {
				return err
			}
		}
		if last = max(last, r.span); r.ended == current {
			turns++
		}
	}
	if _, err := w.sql.exec(ctx, "set_conversation_turns", n, turns); err != nil {
		return err
	}
	// Summaries may repeat the text of the erased turns.
	if _, err := w.sql.exec(ctx, "remove_conversation_summaries", n); err != nil {
		return err
	}
	var id string
	if err := w.sql.one(ctx, "conversation_id", []any{n}, []any{&id}); err != nil {
		return err
	}
	of, _ := session.OfConversation(id)
	return w.limitSummary(ctx, of, last)
}

// current is the ended version of a step that is on the current path.
const current = 1<<63 - 1
