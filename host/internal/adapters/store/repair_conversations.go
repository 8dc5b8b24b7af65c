package store

import (
	"context"

	"lukechampine.com/blake3"

	"github.com/fermenthq/ferment/sdk/edn"
)

// conversationTables are the tables of conversations that a repair copies, each before
// those that name its rows. Summaries are made again from what they stand for.
var conversationTables = []string{
	"conversation_content", "conversation_spans", "conversation_messages", "conversations", "conversation_path", "conversation_commits",
	"conversation_drafts",
}

// conversationRepair knows the rows that a repair has kept, by their numbers.
type conversationRepair struct {
	contents, conversations map[int64]bool
	spans                   map[int64]int64 // the next message of each
}

// copyConversations copies the rows of conversations that can be read. Content is kept
// if it has its hash; a turn without its messages is lost, and ends the current path
// before it.
func (r *repairer) copyConversations(ctx context.Context) error {
	var there int
	if err := r.src.read.one(ctx, "conversations_table", nil, []any{&there}); err != nil || there == 0 {
		return err
	}
	known := &conversationRepair{
		contents: map[int64]bool{}, conversations: map[int64]bool{}, spans: map[int64]int64{},
	}
	lost := 0
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
		switch lost += missing; table {
		case "conversations":
			r.report.Sessions.Conversations = Salvaged{kept, missing}
		case "conversation_messages":
			r.report.Sessions.Messages = Salvaged{kept, missing}
		}
	}
	if _, err := r.dst.write.exec(ctx, "cut_conversation_paths"); err != nil {
		return err
	}
	if _, err := r.dst.write.exec(ctx, "recount_conversations"); err != nil || lost == 0 {
		return err
	}
	return r.cutLine(r.report.Sessions.Value())
}

// keeps reports whether a row is kept, and notes it. Rows come in the order of their
// statements: messages by span and position.
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
