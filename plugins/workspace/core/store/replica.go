package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
)

// replica is an index that is rebuilt from the log in a temporary database. It verifies every
// record as it is added.
type replica struct {
	*index
	found *findings
	check *Check
	// contents are the ids of all texts of the log; false if the text was dropped or lost.
	contents map[id.ID]bool
	lost     map[id.ID]bool
	frames   map[id.ID]replicaFrame
	agents   map[string]bool
	same     bool // an index was compared and has the same rows
}

// replicaFrame holds the fields of a frame that finish needs.
type replicaFrame struct {
	path, typ string
	content   id.ID
	seq       uint64
	segment   int
}

func newReplica(ctx context.Context, who Identity, scheme id.Scheme, found *findings, check *Check) (_ *replica, err error) {
	r := &replica{
		index:    &index{scheme: scheme},
		found:    found,
		check:    check,
		contents: map[id.ID]bool{},
		lost:     map[id.ID]bool{},
		frames:   map[id.ID]replicaFrame{},
		agents:   map[string]bool{},
	}
	// A database without a name is temporary: it is in memory as long as it is
	// small, and its file is deleted by the system.
	if r.writers, err = sql.Open("sqlite", "file:?"+url.Values{"_journal_mode": {"OFF"}, "_synchronous": {"OFF"}, "_dqs": {"0"}}.Encode()); err != nil {
		return nil, err
	}
	if err = r.connect(ctx); err == nil {
		err = r.prepare(ctx, who)
	}
	if err == nil { // what only readers use is not needed
		err = r.exec(ctx, "DROP INDEX versions_of_node", "DROP INDEX versions_since", "DROP INDEX versions_until",
			"DROP INDEX frames_of_content", "DROP INDEX frames_of_basis", "BEGIN")
	}
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// add applies a transaction.
func (r *replica) add(ctx context.Context, t *log.Transaction) error {
	for i, rec := range t.Records {
		problem := r.verify(t.Commit.Seq, rec, t.Places[i])
		if problem == nil {
			if err := r.apply(ctx, t.Commit.Seq, rec, t.Places[i]); err != nil {
				problem = &Finding{Code: RecordMalformed, Reason: err.Error()}
			}
		}
		if problem != nil {
			problem.File, problem.Offset, problem.Seq = logFile(t.Places[i].Segment), t.Places[i].Offset, t.Commit.Seq
			r.found.wrong(*problem)
		}
	}
	if err := r.applied(ctx, t.Commit); err != nil {
		return err
	}
	return r.mark(ctx, t.End)
}

func logFile(segment int) string { return logDir + "/" + log.SegmentName(segment) }

// verify computes the ids of a record again.
func (r *replica) verify(seq uint64, rec log.Record, place log.Place) *Finding {
	malformed := func(err error) *Finding { return &Finding{Code: RecordMalformed, Reason: err.Error()} }
	switch rec.Kind {
	case kindContent:
		c := contentOf(r.scheme, rec.Payload)
		r.contents[c] = true
		delete(r.lost, c)
	case kindGone:
		var gone goneRecord
		if err := decodeRecord(rec.Payload, &gone); err != nil {
			return malformed(err)
		}
		for _, c := range gone.Contents {
			r.contents[c], r.lost[c] = false, gone.Lost
		}
	case kindFrame:
		f, err := openFrame(r.scheme, rec.Payload)
		if err != nil {
			return &Finding{Code: FrameMismatch, Reason: err.Error()}
		}
		r.frames[f.ID] = replicaFrame{path: f.Path, typ: f.Type, content: f.Content, seq: seq, segment: place.Segment}
		r.agents[f.Agent] = true
	case kindHead:
		var h headRecord
		if err := decodeRecord(rec.Payload, &h); err != nil {
			return malformed(err)
		}
		if f, ok := r.frames[h.Frame]; !ok || f.path != string(h.RawPath) || f.typ != h.Type {
			return &Finding{Code: HeadDangling, Path: string(h.RawPath), Frame: h.Frame, Reason: "the head is not a frame of its path and type"}
		}
	}
	return nil
}

// finish makes the checks that require the whole log.
func (r *replica) finish() {
	for x, f := range r.frames {
		text, known := r.contents[f.content]
		switch {
		case !known:
			r.found.wrong(Finding{Code: ContentMissing, File: logFile(f.segment), Seq: f.seq, Path: f.path, Frame: x, Reason: "the text of the frame is not in the log"})
		case !text && r.lost[f.content]:
			r.found.warn(Finding{Code: TextMissing, Seq: f.seq, Path: f.path, Frame: x, Reason: "the text of the frame was lost before a repair"})
		}
	}
	for agent := range r.agents {
		if r.check.Agents != nil && !r.check.Agents(agent) {
			r.found.warn(Finding{Code: AgentUnknown, Reason: fmt.Sprintf("frames have the agent %q, which is not declared", agent)})
		}
	}
}

// compare compares an index with the replica, table by table. The caller compares
// the checkpoint, which is in the table meta.
func (r *replica) compare(ctx context.Context, other querier) error {
	tables, err := r.tables(ctx)
	if err != nil {
		return err
	}
	before := r.found.count[IndexDiffers]
	defer func() { r.same = err == nil && r.found.count[IndexDiffers] == before }()
	for _, t := range tables {
		query := "SELECT * FROM " + t.name + " ORDER BY " + strings.Join(t.key, ", ")
		if err := r.compareTable(ctx, t.name, query, other); err != nil {
			return err
		}
	}
	return nil
}

type table struct {
	name string
	key  []string
}

func (r *replica) tables(ctx context.Context) ([]table, error) {
	var list []table
	err := eachRow(ctx, r.conn, func(rows *sql.Rows) error {
		var name, column string
		if err := rows.Scan(&name, &column); err != nil {
			return err
		}
		if n := len(list); n == 0 || list[n-1].name != name {
			list = append(list, table{name: name})
		}
		list[len(list)-1].key = append(list[len(list)-1].key, column)
		return nil
	}, `SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c
		WHERE t.type = 'table' AND t.name <> 'meta' AND c.pk > 0 ORDER BY t.name, c.pk`)
	return list, err
}

func (r *replica) compareTable(ctx context.Context, name, query string, other querier) error {
	mine, err := newRows(r.conn.QueryContext(ctx, query))
	if err != nil {
		return err
	}
	defer mine.close()
	differs := func(reason string) {
		r.found.wrong(Finding{Code: IndexDiffers, File: indexFile, Reason: "table " + name + ": " + reason})
	}
	theirs, err := newRows(other.QueryContext(ctx, query))
	if err != nil {
		differs(err.Error())
		return nil
	}
	defer theirs.close()
	for n := 1; ; n++ {
		a, err := mine.next()
		if err != nil {
			return err
		}
		b, err := theirs.next()
		switch {
		case err != nil:
			differs(err.Error())
			return nil
		case a == nil && b == nil:
			return nil
		case !sameRow(a, b):
			differs(fmt.Sprintf("row %d is not that of the log", n))
			return nil // the rows behind it would be shifted
		}
	}
}

// tableRows are rows of any table.
type tableRows struct {
	rows   *sql.Rows
	values []any
	fields []any
}

func newRows(rows *sql.Rows, err error) (*tableRows, error) {
	if err != nil {
		return nil, err
	}
	columns, err := rows.Columns()
	if err != nil {
		return nil, errors.Join(err, rows.Close())
	}
	t := &tableRows{rows: rows, values: make([]any, len(columns)), fields: make([]any, len(columns))}
	for i := range t.values {
		t.fields[i] = &t.values[i]
	}
	return t, nil
}

func (t *tableRows) close() { _ = t.rows.Close() }

// next returns the values of the next row, nil at the end.
func (t *tableRows) next() ([]any, error) {
	if !t.rows.Next() {
		return nil, t.rows.Err()
	}
	return t.values, t.rows.Scan(t.fields...)
}

func sameRow(a, b []any) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, isBytes := a[i].([]byte)
		y, areBytes := b[i].([]byte)
		if isBytes != areBytes || isBytes && !bytes.Equal(x, y) || !isBytes && a[i] != b[i] {
			return false
		}
	}
	return true
}
