package store

import (
	"context"
	"slices"

	"github.com/fermenthq/ferment/host/internal/orchestration/session"
	"github.com/fermenthq/ferment/sdk/edn"
)

// Salvaged is the number of rows of a table that a repair kept and lost. Lost is a lower bound if
// pages are damaged.
type Salvaged struct{ Kept, Lost int }

// RepairedSessions reports what a repair kept and lost of the sessions and conversations.
type RepairedSessions struct {
	Sessions, Vars Salvaged
	// Turns are the turns of sessions in a database of an older version, which stored them in a
	// table of their own.
	Turns Salvaged
	// Conversations and Messages include the conversations of sessions.
	Conversations, Messages Salvaged
	// Damage is the first damage in a row; nil if all damage is in pages.
	Damage *Damage
}

func (s *RepairedSessions) of(table string) *Salvaged {
	return map[string]*Salvaged{"sessions": &s.Sessions, "session_vars": &s.Vars, "session_turns": &s.Turns}[table]
}

// Value returns the numbers as an EDN map, with keys such as :sessions/kept and :sessions/lost.
func (s *RepairedSessions) Value() edn.Value {
	var b edn.MapBuilder
	for _, part := range []struct {
		name string
		Salvaged
	}{{"sessions", s.Sessions}, {"variables", s.Vars}, {"turns", s.Turns}, {"conversations", s.Conversations},
		{"messages", s.Messages}} {
		b.Key(part.name+"/kept", edn.Int(int64(part.Kept)))
		b.Key(part.name+"/lost", edn.Int(int64(part.Lost)))
	}
	return b.Map()
}

// countSessions counts the rows of the tables of sessions and conversations in src. If the B-tree
// of a table cannot be read, an index usually still has the number.
func (r *repairer) countSessions(ctx context.Context) {
	r.counted = map[string]int{}
	for _, table := range slices.Concat(sessionTables, conversationTables) {
		for _, way := range []string{"count_", "walk_"} {
			var n int
			if err := r.src.read.one(ctx, way+table, nil, []any{&n}); err == nil {
				r.counted[table] = max(r.counted[table], n)
			}
		}
	}
}

// copySessions copies the readable rows of sessions. They have no hash, so a changed row is not
// detected. A session whose notes or state cannot be read is kept without them. Variables without a
// value, and rows of a lost session, are lost.
func (r *repairer) copySessions(ctx context.Context) error {
	var there int
	if err := r.src.read.one(ctx, "sessions_table", nil, []any{&there}); err != nil || there == 0 {
		return err
	}
	known := map[any]bool{}
	for _, table := range sessionTables {
		found, rows := 0, r.report.Sessions.of(table)
		row := make([]any, len(tableColumns[table]))
		into := make([]any, len(row))
		for i := range row {
			into[i] = &row[i]
		}
		err := r.src.read.all(ctx, "all_"+table, nil, into, func() error {
			found++
			keep, whole := true, true
			switch table {
			case "sessions":
				known[row[0]], whole = true, sessionIsWhole(row)
			case "session_vars":
				text, _ := row[4].([]byte)
				_, err := edn.Read(text, storedLimits)
				keep = err == nil && known[row[1]]
			default:
				keep = known[row[1]]
			}
			if !keep || !whole {
				if err := r.cutRow(table, row); err != nil {
					return err
				}
			}
			if !keep {
				return nil
			}
			if !whole {
				row[4], row[10] = stateOf(session.Session{Frozen: true}), edn.MustMap().String()
			}
			rows.Kept++
			_, err := r.dst.write.exec(ctx, "salvage_"+table, row...)
			return err
		})
		if err != nil {
			return err
		}
		rows.Lost = max(found, r.counted[table]) - rows.Kept
	}
	s := &r.report.Sessions
	r.missing = s.Sessions.Lost + s.Vars.Lost + s.Turns.Lost
	return nil
}

// sessionIsWhole reports whether the notes and the state in a row can be decoded.
func sessionIsWhole(row []any) bool {
	var of sessionRow
	of.notes, _ = row[10].(string)
	state, _ := row[4].(int64)
	of.state = int(state)
	return of.read() == nil
}

// cutRow writes a row that is not kept unchanged to the cut-off file of the repair.
func (r *repairer) cutRow(table string, row []any) error {
	columns := make([]edn.Value, len(row))
	for i, column := range row {
		switch column := column.(type) {
		case int64:
			columns[i] = edn.Int(column)
		case string:
			columns[i] = readableText(column)
		case []byte:
			columns[i] = readableText(string(column))
		}
	}
	return r.cutLine(edn.MustMap(edn.K("table"), edn.Text(table), edn.K("row"), edn.Vector(columns...)))
}
