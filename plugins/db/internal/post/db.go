package post

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fermenthq/ferment/plugins/db/internal/result"
	"github.com/fermenthq/ferment/sdk/edn"
	"github.com/fermenthq/ferment/sdk/effects"
)

// Settings configure Open.
type Settings struct {
	DSN string
	// Write allows changes of data, DDL also changes of the schema.
	Write, DDL bool
	// Key is the effect key of a call that writes.
	Key string
	// Strict rejects a role whose rights reach beyond the database.
	Strict bool
	// MaxBytes is the maximum size of a row that is returned.
	MaxBytes int64
}

// DB is a database in the transaction of one call. It must be used by one goroutine.
type DB struct {
	conn   *pgconn.PgConn
	key    string
	rights rights
}

// slack is the maximum size of a message besides the values of a row, in bytes.
const slack = 64 << 10

// Open connects and begins the transaction of the call. For a call that writes, it also records the
// effect key in the transaction; if an earlier call with this key was committed, Open returns the
// stored answer of that call, and the caller must not execute anything. If another call with the
// key is under way, Open waits for its end. The waiting ends with a fault when ctx ends. The caller
// must close the DB.
func Open(ctx context.Context, s Settings) (_ *DB, stored *result.Stored, fault *result.Fault) {
	config, err := pgconn.ParseConfig(s.DSN)
	if err != nil { // its text could have parts of the password
		return nil, nil, result.Faultf(result.Missing,
			"its dsn is not a connection string of PostgreSQL, such as postgres://user@host/database")
	}
	config.MaxProtocolMessageBodyLen = int(s.MaxBytes) + slack
	config.LookupFunc = (&net.Resolver{PreferGo: true}).LookupHost
	config.RuntimeParams["application_name"] = "ferment"
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, nil, connectFault(ctx, err)
	}
	db := &DB{conn: conn, key: s.Key, rights: rights{write: s.Write, ddl: s.Write && s.DDL}}
	if s.Strict {
		fault = db.confined(ctx)
	}
	if fault == nil && s.Write {
		stored, fault = db.beginWrite(ctx)
	} else if fault == nil {
		fault = db.begin(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	}
	if fault != nil {
		db.Close()
		return nil, nil, fault
	}
	return db, stored, nil
}

// connectFault returns the fault for a failed connection. Its message holds none of the
// connection's settings, which may be secret.
func connectFault(ctx context.Context, err error) *result.Fault {
	var refused *pgconn.PgError
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case errors.As(err, &refused):
		return &result.Fault{Kind: result.Lost, Message: "the server rejected the connection", Code: refused.Code}
	case ctx.Err() != nil:
		return result.Faultf(result.Late, "the server did not answer in time")
	case errors.As(err, &dns):
		return result.Faultf(result.Lost, "the name of the server cannot be resolved to an address")
	case errors.As(err, &op):
		return result.Faultf(result.Lost, "no connection to the server: %s", op.Err)
	}
	return result.Faultf(result.Lost, "no connection to the server")
}

// confined returns a fault of kind Unheld for a role that can run programs or access files on the
// server, or can give itself the right to: a transaction cannot confine such a role.
func (db *DB) confined(ctx context.Context) *result.Fault {
	row, fault := db.exec(ctx, `SELECT coalesce(string_agg(rolname, ', ' ORDER BY rolname), '') FROM pg_catalog.pg_roles
WHERE pg_catalog.pg_has_role(session_user, oid, 'MEMBER') AND (rolsuper OR rolcreaterole OR rolreplication OR rolname IN
	('pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files'))`)
	if fault != nil {
		return fault
	}
	if row[0] == "" {
		return nil
	}
	return result.Faultf(result.Unheld, "its role has the rights of %s, which go beyond the database", row[0])
}

// clientCheck is the first version of the server that notices that its client is
// gone while it executes a statement.
const clientCheck = 14

// begin executes sql, which begins a transaction, and sets fixed text forms of values and, as
// timeouts, the time until the deadline of ctx.
func (db *DB) begin(ctx context.Context, sql string) *result.Fault {
	statements := []string{
		sql, "SET LOCAL TimeZone = 'UTC'", "SET LOCAL DateStyle = 'ISO'", "SET LOCAL IntervalStyle = 'postgres'",
		"SET LOCAL bytea_output = 'hex'", "SET LOCAL extra_float_digits = 1", "SET LOCAL standard_conforming_strings = on",
	}
	if deadline, ok := ctx.Deadline(); ok {
		left := strconv.FormatInt(max(1, time.Until(deadline).Milliseconds()), 10)
		statements = append(statements, "SET LOCAL statement_timeout = "+left,
			"SET LOCAL idle_in_transaction_session_timeout = "+left)
	}
	var major int
	if _, err := fmt.Sscan(db.conn.ParameterStatus("server_version"), &major); err == nil && major >= clientCheck {
		statements = append(statements, "SET LOCAL client_connection_check_interval = 1000")
	}
	for _, sql := range statements {
		if _, fault := db.exec(ctx, sql); fault != nil {
			return fault
		}
	}
	return nil
}

// beginWrite begins the transaction of a call that writes and records its key in it. If another
// call with the key is under way, it waits for its end. If an earlier call with the key was
// committed, it returns the answer of that call.
func (db *DB) beginWrite(ctx context.Context) (*result.Stored, *result.Fault) {
	if fault := db.createEffects(ctx); fault != nil {
		return nil, fault
	}
	if fault := db.begin(ctx, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"); fault != nil {
		return nil, fault
	}
	row, fault := db.exec(ctx, "INSERT INTO "+result.EffectsTable+
		" (effect_key, statements, answer, created_at) VALUES ($1, '', '', now())"+
		" ON CONFLICT DO NOTHING RETURNING 'entered'", db.key)
	if fault != nil || row != nil {
		return nil, fault
	}
	row, fault = db.exec(ctx, "SELECT statements, answer FROM "+result.EffectsTable+" WHERE effect_key = $1", db.key)
	if fault != nil {
		return nil, fault
	}
	if row == nil {
		return nil, result.Faultf(result.Busy, "the row of this call was removed from the table %s meanwhile",
			result.EffectsTable)
	}
	return &result.Stored{Statements: row[0], Answer: row[1]}, nil
}

// createEffects creates the table of keys if it does not exist. Several calls may do that at the
// same time.
func (db *DB) createEffects(ctx context.Context) *result.Fault {
	row, fault := db.exec(ctx, "SELECT coalesce(to_regclass('"+result.EffectsTable+"')::text, '')")
	if fault != nil || row[0] != "" {
		return fault
	}
	_, fault = db.exec(ctx, "CREATE TABLE IF NOT EXISTS "+result.EffectsTable+
		" (effect_key text PRIMARY KEY, statements text NOT NULL, answer text NOT NULL, created_at timestamptz NOT NULL)")
	switch {
	case fault == nil, fault.Code == "42P07", fault.Code == "23505": // another call has just made it
		return nil
	case fault.Kind == result.NotAllowed:
		return result.Faultf(result.Missing,
			"its role has no permission to create the table %s: create it, and let the role read, "+
				"insert and update rows", result.EffectsTable)
	}
	return fault
}

// exec executes a statement of this package, with texts as parameters, and returns the texts of the
// first row, or nil if there is no row.
func (db *DB) exec(ctx context.Context, sql string, texts ...string) ([]string, *result.Fault) {
	values := make([][]byte, len(texts))
	for i, t := range texts {
		values[i] = []byte(t)
	}
	got := db.conn.ExecParams(ctx, sql, values, nil, nil, nil).Read()
	if got.Err != nil {
		return nil, db.fault(ctx, got.Err)
	}
	if len(got.Rows) == 0 {
		return nil, nil
	}
	row := make([]string, len(got.Rows[0]))
	for i, text := range got.Rows[0] {
		row[i] = string(text)
	}
	return row, nil
}

// Run executes a statement and appends its rows to into. It is canceled when ctx ends; the fault is
// then Late.
func (db *DB) Run(ctx context.Context, s effects.Statement, into *result.Rows) *result.Fault {
	if fault := permit(s.SQL, db.rights); fault != nil {
		return fault
	}
	is, err := db.conn.Prepare(ctx, "", s.SQL, nil)
	if err != nil {
		return db.fault(ctx, err)
	}
	if len(is.ParamOIDs) != len(s.Parameters) {
		return result.Faultf(result.Invalid, "the statement has %d parameters, but the input has %d :parameters",
			len(is.ParamOIDs), len(s.Parameters))
	}
	values := make([][]byte, len(s.Parameters))
	for i, v := range s.Parameters {
		if values[i], err = write(is.ParamOIDs[i], v); err != nil {
			return result.Faultf(result.Invalid, "parameter %d: %s", i+1, err)
		}
	}
	columns := make([]result.Column, len(is.Fields))
	for i, f := range is.Fields {
		columns[i] = result.Column{Name: f.Name, Type: typeNames[f.DataTypeOID]}
	}
	if fault := into.Begin(columns); fault != nil {
		return fault
	}
	return db.collect(ctx, db.conn.ExecPrepared(ctx, "", values, nil, nil), is.Fields, into)
}

// collect reads the rows of a statement. If into takes no further row, it returns early, and the
// connection cannot be used again.
func (db *DB) collect(
	ctx context.Context, reader *pgconn.ResultReader, fields []pgconn.FieldDescription, into *result.Rows,
) *result.Fault {
	row := make([]edn.Value, len(fields))
	for reader.NextRow() {
		var err error
		for i, text := range reader.Values() {
			if row[i], err = read(fields[i].DataTypeOID, text); err != nil {
				return result.Faultf(result.Invalid, "column %q: %s", fields[i].Name, err)
			}
		}
		if more, fault := into.Add(row); fault != nil || !more {
			return fault
		}
	}
	tag, err := reader.Close()
	if err != nil {
		return db.fault(ctx, err)
	}
	if tag.Insert() || tag.Update() || tag.Delete() || changes(tag) {
		into.Affected = tag.RowsAffected()
	}
	return nil
}

// changes reports whether a tag is that of a MERGE, which pgconn does not recognize as a statement
// that changes rows.
func changes(tag pgconn.CommandTag) bool { return len(tag.String()) > 5 && tag.String()[:5] == "MERGE" }

// Commit stores the answer under the effect key and commits the transaction. The fault is
// NotAllowed if the statements removed the row of the key. If it is Unsure, the transaction may
// have been committed; otherwise it was not.
func (db *DB) Commit(ctx context.Context, s result.Stored) *result.Fault {
	row, fault := db.exec(ctx, "UPDATE "+result.EffectsTable+
		" SET statements = $2, answer = $3 WHERE effect_key = $1 RETURNING 'stored'", db.key, s.Statements, s.Answer)
	if fault != nil {
		return fault
	}
	if row == nil {
		return result.Faultf(result.NotAllowed, "the statements removed the row of this call from the table %s",
			result.EffectsTable)
	}
	if _, fault = db.exec(ctx, "COMMIT"); fault != nil {
		fault.Unsure = fault.Kind == result.Lost || fault.Kind == result.Late
	}
	return fault
}

// Close closes the connection, which rolls the transaction back unless it was committed. It blocks
// for at most a second.
func (db *DB) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = db.conn.Close(ctx)
}

// fault returns the fault for an error of the connection or the server.
func (db *DB) fault(ctx context.Context, err error) *result.Fault {
	var said *pgconn.PgError
	var long *pgproto3.ExceededMaxBodyLenErr
	switch {
	case errors.As(err, &long):
		return result.Faultf(result.TooLarge, "a row has %d bytes, which is more than the scope allows", long.ActualBodyLen)
	case errors.As(err, &said):
		return &result.Fault{Kind: kindOf(said.Code), Message: said.Message, Code: said.Code}
	case ctx.Err() != nil || pgconn.Timeout(err):
		return result.Faultf(result.Late, "the statement did not end in time")
	}
	return result.Faultf(result.Lost, "the connection to the server broke")
}

// kindOf returns the kind of a failure for the SQLSTATE of the server; see the appendix of its
// manual.
func kindOf(code string) result.Kind {
	switch code {
	case "57014", "25P03", "55P03": // canceled, idle in transaction, lock not available
		return result.Late
	case "25006", "42501": // read-only transaction, insufficient privilege
		return result.NotAllowed
	}
	switch code[:2] {
	case "23":
		return result.Constraint
	case "40":
		return result.Busy
	case "54":
		return result.TooLarge
	case "08", "53", "57", "58", "XX":
		return result.Lost
	}
	return result.Invalid
}
