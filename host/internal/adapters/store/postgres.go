package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/oklog/ulid/v2"

	"github.com/fermenthq/ferment/sdk/contract"
)

// The parts that only PostgreSQL needs are in this file, in postgres_hosts.go and below
// sql/postgres.

// Postgres identifies a PostgreSQL database, which several hosts may share.
type Postgres struct {
	// DSN is the connection string. It is never printed.
	DSN string
	// Host is the id of this host, which must be unique among the hosts of the database. A Store
	// that opens the database fences an earlier one with the same id.
	Host string
	// Lease is the time without a write of this host after which another host may take over its
	// runs; 0: 15 s.
	Lease time.Duration
	// Grace is the time without a connection after which the store fails; 0: 30 s.
	Grace time.Duration
}

const (
	defaultLease = 15 * time.Second
	defaultGrace = 30 * time.Second

	// silence is the time after which a connection whose other end does not answer counts as lost.
	silence = 10 * time.Second

	readerConnections = 8
)

// ErrFenced is the error of a writer whose host id another Store has taken over.
var ErrFenced = errors.New("another process has opened the database as this host")

// SettingError is the error of opening a database whose server has a setting under which commits
// are not durable or not isolated as required.
type SettingError struct{ Database, Setting, Found, Want string }

// Error implements error.
func (e *SettingError) Error() string {
	return fmt.Sprintf("store: open %s: the server has %s = %s, expected %s", e.Database, e.Setting, e.Found, e.Want)
}

// UnreachableError is the error of opening a database whose server cannot be reached or rejects
// this host.
type UnreachableError struct {
	Database string
	Err      error
}

// Error implements error.
func (e *UnreachableError) Error() string { return "store: open " + e.Database + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// postgresDB are the connections to a PostgreSQL database.
type postgresDB struct {
	title  string
	host   string
	boot   string
	lease  time.Duration
	grace  time.Duration
	stop   <-chan struct{}
	source *sql.DB // pool of the connection of the writer
	conn   *sql.Conn
	pool   *sql.DB

	// Used only by the writer.
	n       int64     // number of the host
	commits int64     // number of its committed transactions
	taken   int64     // counter of takeovers, as last read
	erased  int64     // counter of deletions of values, as last read
	since   time.Time // first failure since the last commit; zero: no failure
}

var (
	_ database = (*postgresDB)(nil)
	_ sharing  = (*postgresDB)(nil)
)

func openPostgres(ctx context.Context, o Postgres, full bool, stop <-chan struct{}) (_ *postgresDB, err error) {
	config, err := pgx.ParseConfig(o.DSN)
	if err != nil { // its text could have parts of the password
		return nil, contract.Errorf("config/range", "store.dsn is not a connection string of PostgreSQL").
			WithHint("write one such as postgres://user@host/database?sslmode=verify-full")
	}
	db := &postgresDB{
		title: "database " + config.Database + " on " + net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))),
		host:  o.Host,
		boot:  ulid.Make().String(),
		lease: o.Lease,
		grace: o.Grace,
		stop:  stop,
	}
	if db.lease == 0 {
		db.lease = defaultLease
	}
	if db.grace == 0 {
		db.grace = defaultGrace
	}
	dialer := &net.Dialer{
		Timeout:         silence,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: silence / 2, Interval: silence / 4, Count: 2},
		Control:         limitSilence,
	}
	config.DialFunc = dialer.DialContext
	for name, value := range map[string]string{
		"application_name":  "ferment " + o.Host,
		"statement_timeout": "0", // a commit is not given up
		"lock_timeout":      "0",
		// A host that was stopped within a transaction must not stop the others for so
		// long that their leases lapse.
		"idle_in_transaction_session_timeout": strconv.FormatInt(max(time.Second, db.lease/3).Milliseconds(), 10),
		"client_encoding":                     "UTF8",
	} {
		config.RuntimeParams[name] = value
	}
	reading := config.Copy()
	reading.RuntimeParams["default_transaction_read_only"] = "on"
	if !full {
		config.RuntimeParams["synchronous_commit"] = "off"
	}
	db.source, db.pool = stdlib.OpenDB(*config), sql.OpenDB(readers{stdlib.GetConnector(*reading)})
	db.pool.SetMaxOpenConns(readerConnections)
	db.pool.SetMaxIdleConns(readerConnections)
	defer func() {
		if err != nil {
			_ = db.close()
		}
	}()
	if err := db.connect(ctx); err != nil {
		return nil, &UnreachableError{db.title, err}
	}
	return db, db.check(ctx, full)
}

// readers opens connections that database/sql replaces if they were lost while idle. The driver
// reports that for queries, but not for statements to prepare.
type readers struct{ driver.Connector }

// Connect implements driver.Connector.
func (r readers) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := r.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return reader{c.(*stdlib.Conn)}, nil
}

type reader struct{ *stdlib.Conn }

// PrepareContext implements driver.ConnPrepareContext.
func (r reader) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	st, err := r.Conn.PrepareContext(ctx, query)
	if pgconn.SafeToRetry(err) {
		return nil, driver.ErrBadConn
	}
	return st, err
}

// check rejects a server that does not make commits durable (JRN-003). Without full, the settings
// for durability are not checked. The error is a *SettingError.
func (db *postgresDB) check(ctx context.Context, full bool) error {
	for _, c := range []struct {
		setting, text string
		want          []string
		full          bool
	}{
		{"in_recovery", "SELECT CASE WHEN pg_is_in_recovery() THEN 'on' ELSE 'off' END", []string{"off"}, false},
		{"server_encoding", "SHOW server_encoding", []string{"UTF8"}, false},
		{"fsync", "SHOW fsync", []string{"on"}, true},
		{"synchronous_commit", "SHOW synchronous_commit", []string{"on", "remote_apply", "local", "remote_write"}, true},
	} {
		if c.full && !full {
			continue
		}
		var found string
		if err := db.conn.QueryRowContext(ctx, c.text).Scan(&found); err != nil {
			return err
		}
		if !slices.Contains(c.want, found) {
			return &SettingError{db.title, c.setting, found, c.want[0]}
		}
	}
	return nil
}

// connect opens the connection of the writer, and closes the previous one.
func (db *postgresDB) connect(ctx context.Context) (err error) {
	if db.conn != nil {
		_ = db.conn.Close()
	}
	if db.conn, err = db.source.Conn(ctx); err != nil || db.n == 0 {
		return err
	}
	return db.identify(ctx)
}

// identify sets the number of this host for the statements of the writer's connection.
func (db *postgresDB) identify(ctx context.Context) error {
	_, err := db.conn.ExecContext(ctx, "SELECT set_config('ferment.host', $1, false)", strconv.FormatInt(db.n, 10))
	return err
}

func (db *postgresDB) close() error {
	var errs []error
	if db.conn != nil {
		errs = append(errs, ignoreClosed(db.conn.Close()))
	}
	return errors.Join(append(errs, db.source.Close(), db.pool.Close())...)
}

func ignoreClosed(err error) error {
	if errors.Is(err, sql.ErrConnDone) || errors.Is(err, driver.ErrBadConn) {
		return nil
	}
	return err
}

func (db *postgresDB) name() string      { return db.title }
func (db *postgresDB) dialect() string   { return "postgres" }
func (db *postgresDB) writer() *sql.Conn { return db.conn }
func (db *postgresDB) readers() *sql.DB  { return db.pool }

// text implements database. It returns bytes, because a column of type TEXT cannot store the
// character U+0000.
func (db *postgresDB) text(s string) any { return []byte(s) }

// admit implements database: the error has the type invalid-request, which does not stop the store.
func (db *postgresDB) admit(args []any) error {
	for _, arg := range args {
		if s, ok := arg.(string); ok && strings.ContainsRune(s, 0) {
			return contract.Errorf("invalid-request", "the text %.40q has the character U+0000, which PostgreSQL cannot keep", s)
		}
	}
	return nil
}

// alone implements database with an advisory lock, which the server holds for the connection.
func (db *postgresDB) alone(ctx context.Context, do func() error) error {
	const key = "hashtext('ferment.schema ' || current_schema())"
	if _, err := db.conn.ExecContext(ctx, "SELECT pg_advisory_lock("+key+")"); err != nil {
		return err
	}
	err := do()
	_, failed := db.conn.ExecContext(ctx, "SELECT pg_advisory_unlock("+key+")")
	return errors.Join(err, failed)
}

// backup implements database. It does nothing: the operator of the server makes its backups.
func (db *postgresDB) backup(context.Context, int) error { return nil }

// upkeep implements database. It does nothing: the server maintains its files, and overwrites freed
// space later.
func (db *postgresDB) upkeep(context.Context, bool, func(func(context.Context) error) error) error {
	return nil
}
func (db *postgresDB) erasing(_ context.Context, do func() error) error { return do() }
func (db *postgresDB) shrink(context.Context) (more bool, err error)    { return false, nil }
func (db *postgresDB) inPlace() error                                   { return nil }
func (db *postgresDB) flush(context.Context) (whole bool, err error)    { return true, nil }

// size implements database. free is always 0, because the server manages its free space.
func (db *postgresDB) size(ctx context.Context) (bytes, free int64, err error) {
	err = db.pool.QueryRowContext(ctx, "SELECT pg_database_size(current_database())").Scan(&bytes)
	return bytes, 0, err
}

// checkTable implements database. It finds nothing: the server verifies the checksums of its pages.
func (db *postgresDB) checkTable(context.Context, string) (string, error) { return "", nil }

func (db *postgresDB) number() int64         { return db.n }
func (db *postgresDB) leased() time.Duration { return db.lease }

// join implements sharing.
func (db *postgresDB) join(ctx context.Context, st *statements) error {
	err := st.one(ctx, "register", []any{db.host, db.boot, db.lease.Milliseconds()}, []any{&db.n, &db.commits, &db.taken})
	if err != nil {
		return err
	}
	return db.identify(ctx)
}

// leave implements sharing. It ends the lease, so that other hosts need not wait for its end.
func (db *postgresDB) leave(ctx context.Context, st *statements) {
	_, _ = st.exec(ctx, "leave", db.n, db.boot)
}

// begin implements database. A lock on a row serializes the transactions of all hosts, so the state
// that a transaction reads is the one that its commit follows. The error is ErrFenced if another
// Store has opened the database as this host.
func (db *postgresDB) begin(ctx context.Context, w *writer) (done bool, err error) {
	if _, err := db.conn.ExecContext(ctx, w.sql.text["begin"]); err != nil {
		return false, err
	}
	var commits, taken, dropped, erased, run, n int64
	args := []any{db.n, db.boot, db.lease.Milliseconds()}
	err = w.sql.one(ctx, "enter", args, []any{&commits, &taken, &dropped, &erased, &run, &n})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, ErrFenced
	case err != nil:
		return false, err
	case commits == db.commits+2: // the previous transaction, which lost its connection, was committed
		db.commits++
		return true, nil
	}
	w.term = dropped
	w.s.term.Store(dropped)
	w.lastRun, w.lastN = max(w.lastRun, run), max(w.lastN, n)
	if erased != db.erased {
		clear(w.known)
		db.erased = erased
	}
	if taken != db.taken {
		if err := db.fence(ctx, w); err != nil {
			return false, err
		}
		db.taken = taken
	}
	return false, nil
}

// fence breaks the live runs that other hosts have taken over.
func (db *postgresDB) fence(ctx context.Context, w *writer) error {
	for _, r := range w.s.lives() {
		if r.saved == "" || r.broken {
			continue
		}
		_, mine, err := db.owner(ctx, w.sql, r.row.n)
		if err != nil {
			return err
		}
		if !mine {
			r.broken = true
			w.s.breakRun(r, takenOver(r.id))
		}
	}
	return nil
}

func takenOver(run string) *contract.Error {
	return contract.Errorf("journal/fenced", "journal: append to %s: another host has taken the run over", run)
}

// commit implements database.
func (db *postgresDB) commit(ctx context.Context, w *writer) error {
	if _, err := w.sql.exec(ctx, "commit"); err != nil {
		return err
	}
	db.commits++
	db.since = time.Time{}
	return nil
}

// again implements database: it retries serialization failures and deadlocks, and reconnects a lost
// connection until the grace time is over. If the connection was lost in a commit, begin finds out
// whether it was made.
func (db *postgresDB) again(ctx context.Context, w *writer, err error) bool {
	lost := db.lost(err)
	if !lost && !hasState(err, "40001", "40P01") { // a serialization failure or a deadlock is retried
		return false
	}
	if db.since.IsZero() {
		db.since = time.Now()
	}
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		if time.Since(db.since) > db.grace {
			return false
		}
		if !lost {
			return true
		}
		if err := db.connect(ctx); err == nil {
			w.sql.reset(db.conn)
			return true
		}
		select {
		case <-time.After(wait):
		case <-db.stop:
			return false
		}
	}
}

// lost reports whether err closed the connection of the writer.
func (db *postgresDB) lost(err error) bool {
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) {
		return true
	}
	failed := db.conn.Raw(func(c any) error {
		if c.(*stdlib.Conn).Conn().IsClosed() {
			return driver.ErrBadConn
		}
		return nil
	})
	return failed != nil
}

// hasState reports whether err is an error of a server with one of the SQLSTATE codes.
func hasState(err error, codes ...string) bool {
	var failed *pgconn.PgError
	return errors.As(err, &failed) && slices.Contains(codes, failed.Code)
}
