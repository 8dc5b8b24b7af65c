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
	"github.com/fermenthq/ferment/plugins/workspace/core/tree"
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
  segment INTEGER NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX frames_of_content ON frames (content);
CREATE INDEX frames_of_path ON frames (path, type, seq);
CREATE INDEX frames_of_basis ON frames (basis);
CREATE TABLE inputs (input TEXT NOT NULL, frame BLOB NOT NULL, PRIMARY KEY (input, frame)) WITHOUT ROWID;
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
	path    string
	scheme  id.Scheme
	writers *sql.DB
	conn    *writerConn
	readers *sql.DB
	sets    frameSets
	stmt    struct{ find, content, kept, close, version, tree, commit, savepoint, release, suspect *sql.Stmt }
	queries statements // of readers
	// heads and headless mean that there is a head, or none; if neither is set, it
	// is not known.
	heads, headless bool
	// suspected are directories whose heads are all suspect already, in the
	// transaction that is being prepared.
	suspected map[string]bool
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
	// The index loses nothing if the system dies: it is behind the log then.
	if x.writers, err = sql.Open("sqlite", source(path, url.Values{"_journal_mode": {"WAL"}, "_synchronous": {"NORMAL"}})); err != nil {
		return nil, err
	}
	if err = x.connect(ctx); err != nil {
		return nil, errors.Join(errIndex, err)
	}
	if err := x.prepare(ctx, who); err != nil {
		return nil, errors.Join(errIndex, err)
	}
	x.readers, err = sql.Open("sqlite", source(path, url.Values{"mode": {"ro"}, "_query_only": {"1"}}))
	return x, err
}

// connect takes the connection of the writer.
func (x *index) connect(ctx context.Context) error {
	conn, err := x.writers.Conn(ctx)
	if err == nil {
		x.conn = &writerConn{Conn: conn}
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
	var version int32
	var workspace, check string
	if err := x.conn.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if err := x.conn.QueryRowContext(ctx, "SELECT value FROM meta WHERE key = 'workspace'").Scan(&workspace); err != nil {
		return err
	}
	if version != indexVersion || workspace != who.ID {
		return fmt.Errorf("it has version %d and is of workspace %q", version, workspace)
	}
	if err := x.conn.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&check); err != nil || check != "ok" {
		return errors.Join(err, errors.New(check))
	}
	for query, stmt := range map[string]**sql.Stmt{
		"SELECT count(*) FROM contents WHERE id = ?": &x.stmt.find,
		"INSERT INTO contents VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET segment = excluded.segment, offset = excluded.offset, length = excluded.length": &x.stmt.content,
		"DELETE FROM gone WHERE content = ?":                                                                         &x.stmt.kept,
		"UPDATE versions SET until = ?2 WHERE path = ?1 AND until IS NULL":                                           &x.stmt.close,
		"INSERT INTO versions (path, since, mode, size, content, renamed, node) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)": &x.stmt.version,
		"INSERT INTO trees VALUES (?) ON CONFLICT DO NOTHING":                                                        &x.stmt.tree,
		"INSERT INTO commits VALUES (?, ?, ?, ?)":                                                                    &x.stmt.commit,
		"UPDATE tops SET suspect = 1 WHERE path = ? AND suspect = 0":                                                 &x.stmt.suspect,
		"SAVEPOINT request": &x.stmt.savepoint,
		"RELEASE request":   &x.stmt.release,
	} {
		var err error
		if *stmt, err = x.conn.PrepareContext(ctx, query); err != nil {
			return err
		}
	}
	return nil
}

func (x *index) close() error {
	var errs []error
	for _, s := range []*sql.Stmt{x.stmt.find, x.stmt.content, x.stmt.kept, x.stmt.close, x.stmt.version, x.stmt.tree, x.stmt.commit, x.stmt.savepoint, x.stmt.release, x.stmt.suspect} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	errs = append(errs, x.queries.close())
	if x.readers != nil {
		errs = append(errs, x.readers.Close())
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
	rows, err := q.QueryContext(ctx, "SELECT key, value FROM meta WHERE key IN ('seq', 'segment', 'offset', 'chain')")
	if err != nil {
		return c, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var key string
		var value any
		if err := rows.Scan(&key, &value); err != nil {
			return c, err
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
	}
	return c, rows.Err()
}

func (x *index) exec(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		if _, err := x.conn.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// apply adds a record of the transaction seq from the log. place is where its
// payload is. The writer, which has what the record is made of, calls the functions
// for content, frame and head itself, so both ways are the same.
func (x *index) apply(ctx context.Context, seq uint64, r log.Record, place log.Place) error {
	switch r.Kind {
	case kindContent:
		return x.applyContent(ctx, contentOf(x.scheme, r.Payload), place)
	case kindVersions:
		if _, err := x.stmt.tree.ExecContext(ctx, int64(seq)); err != nil {
			return err
		}
		return decodeVersions(r.Payload, x.scheme, func(v version) error {
			if _, err := x.stmt.close.ExecContext(ctx, []byte(v.path), int64(seq)); err != nil {
				return err
			}
			if v.node == nil {
				return x.versionChanged(ctx, v.path, id.ID{})
			}
			var from []byte // NULL if it was not renamed
			if v.from != "" {
				from = []byte(v.from)
			}
			_, err := x.stmt.version.ExecContext(ctx, []byte(v.path), int64(seq), int64(v.node.Mode), v.node.Size, v.node.Content.Sum(), from, nodeKey(v.node.ID.Sum()))
			if err != nil {
				return err
			}
			return x.versionChanged(ctx, v.path, v.node.ID)
		})
	case kindFrame:
		f, err := decodeFrame(r.Payload)
		if err == nil {
			err = x.applyFrame(ctx, seq, f)
		}
		if err == nil {
			err = x.placeFrame(ctx, f, place)
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

// applyContent records where the log has a text.
func (x *index) applyContent(ctx context.Context, content id.ID, p log.Place) error {
	if _, err := x.stmt.kept.ExecContext(ctx, content.Sum()); err != nil {
		return err
	}
	_, err := x.stmt.content.ExecContext(ctx, content.Sum(), p.Segment, p.Offset, p.Length)
	return err
}

// contentOf returns the content id of the text of a frame.
func contentOf(scheme id.Scheme, text []byte) id.ID { return scheme.Bytes(text) }

// applied records the end of a transaction whose records are in the log.
func (x *index) applied(ctx context.Context, c log.Commit) error {
	if err := x.writeSets(ctx, c.Seq); err != nil {
		return err
	}
	_, err := x.stmt.commit.ExecContext(ctx, int64(c.Seq), c.Actor, c.Time, c.Records)
	return err
}

func (x *index) mark(ctx context.Context, c log.Checkpoint) error {
	_, err := x.conn.ExecContext(ctx, `UPDATE meta SET value = CASE key
		WHEN 'seq' THEN ?1 WHEN 'segment' THEN ?2 WHEN 'offset' THEN ?3 WHEN 'chain' THEN ?4 ELSE value END`,
		int64(c.Seq), c.Segment, c.Offset, c.Chain[:])
	return err
}

// loadTree returns the tree at a sequence number, nil if there is none.
func loadTree(ctx context.Context, q querier, scheme id.Scheme, seq uint64) (*tree.Tree, error) {
	rows, err := q.QueryContext(ctx, "SELECT path, mode, size, content FROM versions WHERE since <= ?1 AND (until IS NULL OR until > ?1)", int64(seq))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	t := &tree.Tree{Scheme: scheme}
	nodes := map[string]*tree.Node{}
	for rows.Next() {
		n := &tree.Node{}
		var path, sum []byte
		if err := rows.Scan(&path, &n.Mode, &n.Size, &sum); err != nil {
			return nil, err
		}
		if n.Content, err = id.Of(id.Content, scheme.ContentAlg(), sum); err != nil {
			return nil, err
		}
		_, n.Name = split(string(path))
		n.ID = scheme.Node(string(path), n.Mode, n.Content)
		nodes[string(path)] = n
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	for path, n := range nodes {
		if path == "" {
			t.Root = n
			continue
		}
		dir, _ := split(path)
		up := nodes[dir]
		if up == nil {
			return nil, corrupt(indexFile, "the directory of %q is missing", path)
		}
		up.Children = append(up.Children, n)
	}
	for _, n := range nodes {
		n.Sort()
	}
	if t.Root == nil {
		return nil, nil
	}
	t.Count()
	return t, nil
}
