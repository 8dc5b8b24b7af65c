package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/crc32"
	"net/url"
	"os"

	_ "modernc.org/sqlite" // the driver of the index

	"github.com/fermenthq/ferment/plugins/workspace/core/id"
	"github.com/fermenthq/ferment/plugins/workspace/core/log"
)

// schema of the index. Everything in it is derived from the log.
const schema = `
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE commits (seq INTEGER PRIMARY KEY, actor TEXT NOT NULL, time INTEGER NOT NULL, records INTEGER NOT NULL);
CREATE TABLE contents (id BLOB PRIMARY KEY, segment INTEGER NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE versions (
  path BLOB NOT NULL, since INTEGER NOT NULL, until INTEGER,
  mode INTEGER NOT NULL, size INTEGER NOT NULL, content BLOB NOT NULL, renamed BLOB,
  node INTEGER NOT NULL, -- first 8 bytes of the node id
  PRIMARY KEY (path, since)
) WITHOUT ROWID;
CREATE INDEX versions_of_node ON versions (node);
CREATE TABLE trees (seq INTEGER PRIMARY KEY); -- transactions that changed the tree
CREATE INDEX versions_since ON versions (since);
CREATE INDEX versions_until ON versions (until) WHERE until IS NOT NULL;
CREATE TABLE frames (
  id BLOB PRIMARY KEY, seq INTEGER NOT NULL, path BLOB NOT NULL, node BLOB NOT NULL,
  type TEXT NOT NULL, agent TEXT NOT NULL, origin TEXT NOT NULL, basis BLOB NOT NULL,
  content BLOB NOT NULL, bytes INTEGER NOT NULL, recipe BLOB,
  takes TEXT, -- the type of a selection of entries, NULL without one
  segment INTEGER NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX frames_of_content ON frames (content);
CREATE INDEX frames_of_path ON frames (path, node, type, seq);
CREATE INDEX frames_of_basis ON frames (basis);
CREATE TABLE inputs (input BLOB NOT NULL, frame BLOB NOT NULL, PRIMARY KEY (input, frame)) WITHOUT ROWID;
CREATE TABLE heads (
  path BLOB NOT NULL, node BLOB NOT NULL, type TEXT NOT NULL, seq INTEGER NOT NULL, frame BLOB NOT NULL,
  PRIMARY KEY (path, node, type, seq)
) WITHOUT ROWID;
`

// indexVersion changes with the schema; an index of another one is rebuilt.
var indexVersion = int32(crc32.ChecksumIEEE([]byte(schema + upkeepSchema + topsSchema)))

// index is the database. Its writer is one connection that is in a transaction
// while a batch is prepared.
type index struct {
	path               string
	scheme             id.Scheme
	writers            *sql.DB
	conn               *conn
	readers            *pool
	sets               frameSets
	heads, gone, marks presence // whether there are any rows
	batch              batchCache
}

// batchCache caches rows of the transactions that are being prepared. It is cleared when a batch
// begins and when one of its transactions is undone.
type batchCache struct {
	takers  map[string][]taker // heads of directories that are made from their entries
	recipes map[string]bool    // keys that the table recipes has
}

func source(path string, settings url.Values) string {
	settings.Set("_busy_timeout", "10000")
	settings.Set("_dqs", "0")
	settings.Add("_pragma", "trusted_schema(0)")
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: settings.Encode()}).String()
}

var errIndex = errors.New("the index cannot be used")

// openIndex opens or creates the database. An error that is errIndex means that
// it has to be rebuilt.
func openIndex(ctx context.Context, path string, who Identity, scheme id.Scheme) (_ *index, err error) {
	if err := touch(path); err != nil { // SQLite gives its other files the same permissions
		return nil, err
	}
	x := &index{path: path, scheme: scheme}
	defer func() {
		if err != nil {
			_ = x.close()
		}
	}()
	// The index loses nothing if the system dies: it is behind the log then. A checkpoint
	// syncs twice while writers wait, so there is one per 16 MiB, not per 4.
	settings := url.Values{
		"_journal_mode": {"WAL"},
		"_synchronous":  {"NORMAL"},
		"_pragma":       {"temp_store(MEMORY)", "wal_autocheckpoint(4096)", "cache_size(-16384)"},
	}
	if x.writers, err = sql.Open("sqlite", source(path, settings)); err != nil {
		return nil, err
	}
	if err = x.connect(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", errIndex, err)
	}
	if err := x.prepare(ctx, who); err != nil {
		return nil, fmt.Errorf("%w: %w", errIndex, err)
	}
	x.readers, err = openReaders(path)
	return x, err
}

func openReaders(path string) (*pool, error) {
	db, err := sql.Open("sqlite", source(path, url.Values{"mode": {"ro"}, "_query_only": {"1"}, "_pragma": {"cache_size(-8192)"}}))
	return &pool{db: db}, err
}

// connect opens the connection of the writer.
func (x *index) connect(ctx context.Context) error {
	plain, err := x.writers.Conn(ctx)
	if err == nil {
		x.conn = &conn{Conn: plain}
	}
	return err
}

// prepare creates the schema or verifies that the index is of this workspace.
func (x *index) prepare(ctx context.Context, who Identity) error {
	var tables int
	if err := x.conn.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil {
		return err
	}
	if tables == 0 {
		_, err := x.conn.Conn.ExecContext(ctx, "BEGIN;"+schema+upkeepSchema+topsSchema+fmt.Sprintf("PRAGMA user_version = %d;", indexVersion)+
			"INSERT INTO meta VALUES ('workspace', $1), ('seq', 0), ('segment', 0), ('offset', 0), ('chain', $2); COMMIT",
			who.ID, make([]byte, id.ChainSize))
		if err != nil {
			return err
		}
	}
	if err := belongs(ctx, x.conn, who); err != nil {
		return err
	}
	var check string
	if err := x.conn.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&check); err != nil || check == "ok" {
		return err
	}
	return errors.New(check)
}

// belongs verifies that an index is of this version of the schema and of a workspace.
func belongs(ctx context.Context, q querier, who Identity) error {
	var version int32
	var workspace string
	if err := q.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if err := q.QueryRowContext(ctx, "SELECT value FROM meta WHERE key = 'workspace'").Scan(&workspace); err != nil {
		return err
	}
	switch {
	case version != indexVersion:
		return errors.New("the index is damaged or of another version of the program")
	case workspace != who.ID:
		return fmt.Errorf("the index belongs to workspace %q, not to %q", workspace, who.ID)
	}
	return nil
}

func (x *index) close() error {
	var errs []error
	if x.readers != nil {
		errs = append(errs, x.readers.close())
	}
	if x.conn != nil {
		errs = append(errs, x.conn.Close())
	}
	if x.writers != nil {
		errs = append(errs, x.writers.Close())
	}
	return errors.Join(errs...)
}

// removeIndex deletes the database with its other files.
func removeIndex(path string) error {
	var errs []error
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// querier is a connection or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// checkpoint returns the end of the last transaction that was applied.
func checkpoint(ctx context.Context, q querier) (c log.Checkpoint, err error) {
	err = eachRow(ctx, q, func(rows *sql.Rows) error {
		var key string
		var value any
		if err := rows.Scan(&key, &value); err != nil {
			return err
		}
		switch n, _ := value.(int64); key {
		case "seq":
			c.Seq = uint64(n)
		case "segment":
			c.Segment = int(n)
		case "offset":
			c.Offset = n
		case "chain":
			sum, _ := value.([]byte)
			copy(c.Chain[:], sum)
		}
		return nil
	}, "SELECT key, value FROM meta WHERE key IN ('seq', 'segment', 'offset', 'chain')")
	return c, err
}

// exec executes statements without arguments.
func (x *index) exec(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		if err := x.run(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// run executes a statement.
func (x *index) run(ctx context.Context, statement string, args ...any) error {
	return x.conn.run(ctx, statement, args...)
}

// apply adds a record of the transaction seq of the log. place is the place of its payload. The
// writer has the decoded content, frame or head already, and calls the function for it directly.
func (x *index) apply(ctx context.Context, seq uint64, r log.Record, place log.Place) error {
	switch r.Kind {
	case kindContent:
		return x.applyContent(ctx, contentOf(x.scheme, r.Payload), place)
	case kindVersions:
		if err := x.run(ctx, "INSERT INTO trees VALUES (?) ON CONFLICT DO NOTHING", int64(seq)); err != nil {
			return err
		}
		return decodeVersions(r.Payload, x.scheme, func(v version) error {
			err := x.run(ctx, "UPDATE versions SET until = ?2 WHERE path = ?1 AND until IS NULL",
				[]byte(v.path), int64(seq))
			if err != nil {
				return err
			}
			if v.node == nil {
				return x.versionChanged(ctx, v.path, id.ID{})
			}
			var from []byte // NULL if it was not renamed
			if v.from != "" {
				from = []byte(v.from)
			}
			err = x.run(ctx, `INSERT INTO versions (path, since, mode, size, content, renamed, node)
				VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)`,
				[]byte(v.path), int64(seq), int64(v.node.Mode), v.node.Size, v.node.Content.Sum(), from, nodeKey(v.node.ID.Sum()))
			if err != nil {
				return err
			}
			return x.versionChanged(ctx, v.path, v.node.ID)
		})
	case kindFrame:
		f, err := decodeFrame(r.Payload)
		if err == nil {
			err = x.applyFrame(ctx, seq, f, place)
		}
		return err
	case kindHead:
		var head headRecord
		if err := decodeRecord(r.Payload, &head); err != nil {
			return err
		}
		return x.applyHead(ctx, seq, head)
	case kindMark:
		return x.applyMark(ctx, seq, r.Payload)
	}
	return x.applyUpkeep(ctx, seq, r)
}

// applyContent records the place of a text in the log.
func (x *index) applyContent(ctx context.Context, content id.ID, p log.Place) error {
	if err := x.keep(ctx, content); err != nil {
		return err
	}
	return x.run(ctx, `INSERT INTO contents VALUES (?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET segment = excluded.segment, offset = excluded.offset, length = excluded.length`,
		content.Sum(), p.Segment, p.Offset, p.Length)
}

// keep removes a text that is stored again from the table of dropped texts.
func (x *index) keep(ctx context.Context, content id.ID) error {
	any, err := x.gone.find(ctx, x.conn, "gone")
	if err == nil && any {
		err = x.run(ctx, "DELETE FROM gone WHERE content = ?", content.Sum())
	}
	return err
}

// presence records whether a table has rows; 0 is unknown. Most stores have no rows in some tables,
// which then need no query for each frame.
type presence int

const (
	some presence = iota + 1
	none
)

// find reports whether the table has rows. It queries the table if that is unknown.
func (p *presence) find(ctx context.Context, q querier, table string) (bool, error) {
	if *p == 0 {
		var found bool
		if err := q.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM "+table+")").Scan(&found); err != nil {
			return false, err
		}
		if *p = none; found {
			*p = some
		}
	}
	return *p == some, nil
}

// contentOf returns the content id of the text of a frame.
func contentOf(scheme id.Scheme, text []byte) id.ID { return scheme.Bytes(text) }

// applied records the end of a transaction.
func (x *index) applied(ctx context.Context, c log.Commit) error {
	if err := x.writeSets(ctx, c.Seq); err != nil {
		return err
	}
	return x.run(ctx, "INSERT INTO commits VALUES (?, ?, ?, ?)", int64(c.Seq), c.Actor, c.Time, c.Records)
}

func (x *index) mark(ctx context.Context, c log.Checkpoint) error {
	_, err := x.conn.ExecContext(ctx, `UPDATE meta SET value = CASE key
		WHEN 'seq' THEN ?1 WHEN 'segment' THEN ?2 WHEN 'offset' THEN ?3 WHEN 'chain' THEN ?4 ELSE value END`,
		int64(c.Seq), c.Segment, c.Offset, c.Chain[:])
	return err
}
