package store

import (
	"context"
	"fmt"
	"strings"

	"lukechampine.com/blake3"

	"github.com/fermenthq/ferment/host/internal/orchestration/conversation"
	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/edn"
)

// conversationTables lists the tables of conversations that a repair copies; each comes before the
// tables that refer to it. Summaries are not copied, because they can be generated again.
var conversationTables = []string{
	"conversation_content", "conversation_spans", "conversation_messages", "conversations", "conversation_path", "conversation_commits",
	"conversation_drafts",
}

// conversationRepair records which rows a repair has kept, by their numbers.
type conversationRepair struct {
	contents, conversations map[int64]bool
	spans                   map[int64]int64 // by span, the position of its next message
}

// copyConversations copies the readable rows of conversations. Content is kept if it matches its
// hash. A turn that lost messages is lost, and the current path is cut off before it.
func (r *repairer) copyConversations(ctx context.Context) error {
	var there int
	if err := r.src.read.one(ctx, "conversations_table", nil, []any{&there}); err != nil || there == 0 {
		return err
	}
	known := &conversationRepair{
		contents: map[int64]bool{}, conversations: map[int64]bool{}, spans: map[int64]int64{},
	}
	for _, table := range conversationTables {
		found, kept := 0, 0
		row := make([]any, len(tableColumns[table]))
		into := make([]any, len(row))
		for i := range row {
			into[i] = &row[i]
		}
		err := r.src.read.all(ctx, "all_"+table, nil, into, func() error {
			found++
			if !known.keeps(table, row) {
				return r.cutRow(table, row)
			}
			kept++
			_, err := r.dst.write.exec(ctx, "salvage_"+table, row...)
			return err
		})
		if err != nil {
			return err
		}
		missing := max(found, r.counted[table]) - kept
		switch r.missing += missing; table {
		case "conversations":
			r.report.Sessions.Conversations = Salvaged{kept, missing}
		case "conversation_messages":
			r.report.Sessions.Messages = Salvaged{kept, missing}
		}
	}
	if _, err := r.dst.write.exec(ctx, "cut_conversation_paths"); err != nil {
		return err
	}
	_, err := r.dst.write.exec(ctx, "recount_conversations")
	return err
}

// moveTalk gives conversations of lost sessions new ids, and then converts the turns of a database
// of an older version.
func (r *repairer) moveTalk(ctx context.Context) error {
	renamed, err := r.freeConversations(ctx)
	if err == nil {
		err = r.renameParents(ctx, renamed)
	}
	if err != nil {
		return err
	}
	err = r.dst.db.erasing(ctx, func() error { return moveTalkUp(ctx, newMover(r.dst.db, r.dst.db.writer())) })
	if err == nil {
		err = r.limitSummaries(ctx)
	}
	if err != nil || r.missing == 0 {
		return err
	}
	return r.cutLine(r.report.Sessions.Value())
}

// limitSummaries limits the summaries of sessions to the turns that were kept, because later turns
// can get the numbers of lost ones.
func (r *repairer) limitSummaries(ctx context.Context) error {
	last := map[string]int64{}
	var id string
	var n int64
	err := r.dst.write.all(ctx, "all_last_turns", nil, []any{&id, &n}, func() error { last[id] = n; return nil })
	for id, n := range last {
		if err == nil {
			err = r.dst.writer.limitSummary(ctx, id, n)
		}
	}
	return err
}

// lostPrefix starts the ids of conversations whose session is lost, and references to lost
// conversations. It is followed by the number of the conversation, 0 if unknown, and its previous
// id. Callers cannot choose such an id.
const lostPrefix = "lost/"

func lostID(n int64, id string) string { return fmt.Sprintf("%s%d/%s", lostPrefix, n, id) }

// freeConversations turns the conversations of lost sessions into conversations of their owners
// with new ids, because other sessions may get the old ones. It returns the new ids by the old
// ones.
func (r *repairer) freeConversations(ctx context.Context) (renamed map[string]string, err error) {
	renamed, numbers := map[string]string{}, map[string]int64{}
	var n int64
	var id string
	err = r.dst.write.all(ctx, "all_conversations_without_session", nil, []any{&n, &id}, func() error {
		of, _ := session.OfConversation(id)
		renamed[id], numbers[id] = lostID(n, of), n
		return nil
	})
	for was, is := range renamed {
		if err == nil {
			_, err = r.dst.write.exec(ctx, "free_conversation", numbers[was], is)
		}
	}
	return renamed, err
}

// renameParents updates references to renamed conversations. A reference to a lost conversation
// gets an id with lostPrefix, so that the child is not deleted with another conversation that gets
// the old id.
func (r *repairer) renameParents(ctx context.Context, renamed map[string]string) error {
	type described struct {
		n    int64
		from edn.Value
		all  edn.Value
	}
	var from []described
	there := map[string]bool{}
	var n int64
	var id, about string
	err := r.dst.write.all(ctx, "all_descriptions", nil, []any{&n, &id, &about}, func() error {
		there[id] = true
		all, err := edn.Read([]byte(about), storedLimits)
		if of := all.Key("from"); err == nil && of.IsMap() {
			from = append(from, described{n, of, all})
		}
		return err
	})
	for _, c := range from {
		was, _ := c.from.Key("id").AsString()
		kind, _ := c.from.Key("relation").AsKeyword()
		is, found := renamed[was]
		if !found && kind == conversation.SpawnedFrom && !there[was] && !strings.HasPrefix(was, lostPrefix) {
			is, found = lostID(0, was), true
		}
		if found && err == nil {
			about := c.all.AssocKey("from", c.from.AssocKey("id", edn.Text(is)))
			_, err = r.dst.write.exec(ctx, "free_child", c.n, r.dst.db.text(about.String()))
		}
	}
	return err
}

// keeps reports whether a row should be kept, and records it. It must be called in the order of the
// tables, and for messages in the order of span and position.
func (k *conversationRepair) keeps(table string, row []any) bool {
	n, _ := row[0].(int64)
	column := func(i int) int64 {
		v, _ := row[i].(int64)
		return v
	}
	switch table {
	case "conversation_content":
		hash, _ := row[1].([]byte)
		body, _ := row[3].([]byte)
		sum := blake3.Sum256(body)
		k.contents[n] = string(hash) == string(sum[:])
		return k.contents[n]
	case "conversation_spans":
		k.spans[n] = 0
		return true
	case "conversation_messages":
		next, whole := k.spans[column(1)]
		if !whole || next != column(2) || !k.contents[column(3)] {
			delete(k.spans, column(1)) // the span is lost
			return false
		}
		k.spans[column(1)]++
		return true
	case "conversations":
		about, _ := row[9].(string)
		v, err := edn.Read([]byte(about), storedLimits)
		k.conversations[n] = err == nil && v.IsMap()
		return k.conversations[n]
	case "conversation_path":
		return k.conversations[column(1)] && k.spans[column(6)] > 0
	}
	return k.conversations[column(1)]
}
